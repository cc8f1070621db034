// The tables behind host_reducer.h: one function for each type and operator, filled by each instruction set's files.
// Private to kernels/.
#pragma once

#include "reducer.h"

namespace rondo::kernels {

enum class InstructionSet { avx512_fp16, avx512, avx2, portable };

/// Whether large slices are swept in several pages at once: where a set of the first-level cache has room for four
/// lines of each of two arrays, and for what is fetched ahead.  With 8 ways it has not (Zen 4: 55 us in place of 23 for
/// 2 MiB). To be changed by tests only.
extern bool sweeps_pages;

/// A reducer whose functions are looked up in a table.
class Table final : public Reducer {
 public:
  ReduceFunction find(DataType type, Operator op) const noexcept override {
    return functions_[static_cast<int>(type)][static_cast<int>(op)];
  }
  void set(DataType type, Operator op, ReduceFunction function) noexcept {
    functions_[static_cast<int>(type)][static_cast<int>(op)] = function;
  }

 private:
  ReduceFunction functions_[data_type_count][operator_count] = {};
};

/// Each sets its share of the table; together the vector files set all of it.
void add_portable(Table& table);
void add_vector_integers(InstructionSet set, Table& table);
void add_vector_floats(InstructionSet set, Table& table);
void add_vector_order(InstructionSet set, Table& table);

/// Puts float16 arithmetic in place of what the AVX-512 files set.
void add_native_half(Table& table);

}  // namespace rondo::kernels
