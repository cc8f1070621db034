// The kernels of every instruction set against the reference: types, operators, lengths, alignments, numbers of sources
// and targets, aliasing, special values, and never a byte outside.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

#include "guarded.h"
#include "kernels/host_reducer.h"
#include "reference.h"

namespace {

using namespace rondo;

const DataType all_types[] = {DataType::int8,    DataType::uint8,    DataType::int32,       DataType::uint32,
                              DataType::int64,   DataType::uint64,   DataType::float16,     DataType::float32,
                              DataType::float64, DataType::bfloat16, DataType::float8_e4m3, DataType::float8_e5m2};
const Operator all_operators[] = {Operator::sum, Operator::prod, Operator::max,
                                  Operator::min, Operator::avg,  Operator::premul_sum};

/// One call: its operands in guarded memory, its targets, and who aliases whom.
struct Call {
  Reduction reduction;
  std::size_t elements = 0;
  int sources = 2;
  int targets = 1;
  bool finish = false;
  int aliased_source = -1;  // the first target is this source
};

class Fixture {
 public:
  explicit Fixture(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  /// Bits of a type: mostly ordinary values, some at the edges, now and then anything.
  std::uint64_t element(DataType type) {
    const std::size_t bits = 8 * element_bytes(type);
    const std::uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    if (is_integer(type) || below(4) == 0) {
      const std::uint64_t edges[] = {0, 1, mask, mask >> 1, (mask >> 1) + 1, mask - 1};
      return below(8) == 0 ? edges[below(6)] : random_() & mask;
    }
    if (below(24) == 0) {
      const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 6e-8, 448, 464, 57344, 65504, 65520};
      return reference::encode(type, special[below(12)]);
    }
    const double value = (static_cast<double>(below(2001)) - 1000) / static_cast<double>(1 + below(300));
    return reference::encode(type, type == DataType::float64 ? value : static_cast<float>(value));
  }

  Reduction reduction(DataType type, Operator op) {
    return {type, op, static_cast<int>(1 + below(below(2) ? 9 : 300)), element(type)};
  }

  /// Runs the call on this reducer and compares every target, the sources, and the bytes around the targets.
  void check(const HostReducer& reducer, const Call& call) {
    const std::size_t size = element_bytes(call.reduction.type), bytes = call.elements * size;
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<Source> sources;
    std::vector<std::vector<std::byte>> before;
    std::vector<bool> raw;
    for (int k = 0; k < call.sources; ++k) {
      memory.push_back(std::make_unique<Guarded>(bytes, below(2) == 0, below(3) == 0 ? 0 : below(70)));
      fill(memory.back()->data(), call.reduction.type, call.elements);
      before.emplace_back(memory.back()->data(), memory.back()->data() + bytes);
      raw.push_back(below(2) == 0);
      sources.push_back({memory.back()->data(), raw.back()});
    }
    std::vector<std::byte*> targets;
    for (int k = 0; k < call.targets; ++k) {
      if (k == 0 && call.aliased_source >= 0) {
        targets.push_back(memory[static_cast<std::size_t>(call.aliased_source)]->data());
        continue;
      }
      memory.push_back(std::make_unique<Guarded>(bytes, below(2) == 0, below(3) == 0 ? 0 : below(70)));
      targets.push_back(memory.back()->data());
    }
    reducer.reducer->find(call.reduction.type, call.reduction.op)(
        call.reduction, sources.data(), call.sources, targets.data(), call.targets, call.elements, call.finish);
    for (std::byte* target : targets) compare(reducer, call, before, raw, target);
    for (std::size_t k = 0; k < sources.size(); ++k) {
      if (static_cast<int>(k) == call.aliased_source) continue;
      REQUIRE(std::equal(before[k].begin(), before[k].end(), sources[k].data));
    }
  }

 private:
  void fill(std::byte* data, DataType type, std::size_t elements) {
    const std::size_t size = element_bytes(type);
    for (std::size_t i = 0; i < elements; ++i) {
      const std::uint64_t bits = element(type);
      std::memcpy(data + i * size, &bits, size);
    }
  }

  static void compare(const HostReducer& reducer, const Call& call, const std::vector<std::vector<std::byte>>& operands,
                      const std::vector<bool>& raw, const std::byte* target) {
    const DataType type = call.reduction.type;
    const std::size_t size = element_bytes(type);
    for (std::size_t i = 0; i < call.elements; ++i) {
      std::vector<std::uint64_t> element(operands.size(), 0);
      for (std::size_t k = 0; k < operands.size(); ++k) std::memcpy(&element[k], operands[k].data() + i * size, size);
      std::uint64_t found = 0;
      std::memcpy(&found, target + i * size, size);
      const std::uint64_t wanted = reference::reduce(call.reduction, element, raw, call.finish);
      if (reference::same(type, found, wanted)) continue;
      CAPTURE(reducer.instruction_set, int(type), int(call.reduction.op), call.reduction.ranks, call.reduction.scalar,
              call.sources, call.targets, call.elements, call.finish, call.aliased_source, i, element, found, wanted);
      FAIL("wrong bits");
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("every type and operator, every length to 130 and some beyond") {
  Fixture fixture(1);
  for (const HostReducer& reducer : host_reducers()) {
    for (DataType type : all_types) {
      for (Operator op : all_operators) {
        for (std::size_t elements = 0; elements < 140; ++elements) {
          Call call{fixture.reduction(type, op), elements};
          if (elements > 130) call.elements = 131 + fixture.below(2000);
          call.sources = 1 + static_cast<int>(fixture.below(3));
          call.targets = 1 + static_cast<int>(fixture.below(2));
          call.finish = fixture.below(2) == 0;
          call.aliased_source = static_cast<int>(fixture.below(static_cast<std::uint64_t>(call.sources) + 1)) - 1;
          fixture.check(reducer, call);
        }
      }
    }
  }
}

TEST_CASE("one to nine sources, one to three targets") {
  Fixture fixture(2);
  for (const HostReducer& reducer : host_reducers()) {
    for (DataType type : all_types) {
      for (Operator op : all_operators) {
        for (int sources = 1; sources <= 9; ++sources) {
          for (int targets = 1; targets <= 3; ++targets) {
            Call call{fixture.reduction(type, op), 1 + fixture.below(400), sources, targets};
            call.finish = fixture.below(2) == 0;
            call.aliased_source = static_cast<int>(fixture.below(static_cast<std::uint64_t>(sources) + 1)) - 1;
            fixture.check(reducer, call);
          }
        }
      }
    }
  }
}
