// Chooses the instruction set, once, and keeps the tables.
#include "kernels/host_reducer.h"

#include <unistd.h>

#include <vector>

#include "kernels/table.h"

namespace rondo {

bool kernels::sweeps_pages = ::sysconf(_SC_LEVEL1_DCACHE_ASSOC) != 8;

namespace {

using kernels::InstructionSet;
using kernels::Table;

/// Whether the processor and the operating system know every instruction that the set's kernels are compiled to.
bool runs_here(InstructionSet set) {
#if defined(RONDO_VECTOR_KERNELS)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") &&
                    __builtin_cpu_supports("pclmul");
  if (set == InstructionSet::avx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (set == InstructionSet::avx512) return avx512;
  if (set == InstructionSet::avx512_fp16) return avx512 && __builtin_cpu_supports("avx512fp16");
#endif
  return set == InstructionSet::portable;
}

Table make_table(InstructionSet set) {
  Table table;
#if defined(RONDO_VECTOR_KERNELS)
  if (set != InstructionSet::portable) {
    const bool half = set == InstructionSet::avx512_fp16;
    if (half) set = InstructionSet::avx512;
    kernels::add_vector_integers(set, table);
    kernels::add_vector_floats(set, table);
    kernels::add_vector_order(set, table);
    if (half) kernels::add_native_half(table);
    return table;
  }
#endif
  kernels::add_portable(table);
  return table;
}

struct Registry {
  Table avx512_fp16, avx512, avx2, portable;
  std::vector<HostReducer> reducers;

  Registry() {
    add(InstructionSet::avx512_fp16, "avx512_fp16", avx512_fp16);
    add(InstructionSet::avx512, "avx512", avx512);
    add(InstructionSet::avx2, "avx2", avx2);
    add(InstructionSet::portable, "portable", portable);
  }
  void add(InstructionSet set, std::string_view name, Table& table) {
    if (!runs_here(set)) return;
    table = make_table(set);
    reducers.push_back({name, &table});
  }
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

}  // namespace

std::span<const HostReducer> host_reducers() { return registry().reducers; }

const Reducer& host_reducer() { return *registry().reducers.front().reducer; }

}  // namespace rondo
