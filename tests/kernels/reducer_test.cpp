// The kernels of every instruction set against the reference: types, operators, lengths, alignments, numbers of sources
// and targets, aliasing, special values, and never a byte outside.
#define CATCH_CONFIG_MAIN
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "guarded.h"
#include "kernels/host_reducer.h"
#include "kernels/table.h"
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
  int aliased_source = -1;   // the first target is this source
  bool all_aliased = false;  // and the other targets are the sources behind it
};

std::uint64_t bits_at(const std::byte* data, std::size_t index, std::size_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + index * size, size);
  return bits;
}

/// The first element of `target` that is not what the reference makes of the operands, in words; or nothing.
std::string first_wrong(const Call& call, const std::vector<std::vector<std::byte>>& operands,
                        const std::vector<bool>& raw, const std::byte* target) {
  const DataType type = call.reduction.type;
  const std::size_t size = element_bytes(type);
  for (std::size_t i = 0; i < call.elements; ++i) {
    std::vector<std::uint64_t> element;
    for (const std::vector<std::byte>& operand : operands) element.push_back(bits_at(operand.data(), i, size));
    const std::uint64_t found = bits_at(target, i, size);
    const std::uint64_t wanted = reference::reduce(call.reduction, element, raw, call.finish);
    if (reference::same(type, found, wanted)) continue;
    std::ostringstream text;
    text << "type " << int(type) << " operator " << int(call.reduction.op) << " ranks " << call.reduction.ranks
         << " scalar " << call.reduction.scalar << " sources " << call.sources << " targets " << call.targets
         << " finish " << call.finish << " aliased " << call.aliased_source << " element " << i << " of "
         << call.elements << std::hex << ": found " << found << ", wanted " << wanted << ", from";
    for (std::size_t k = 0; k < element.size(); ++k) text << ' ' << element[k] << (raw[k] ? " raw" : "");
    return text.str();
  }
  return {};
}

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

  /// A call with everything that the caller does not ask for drawn at random.
  Call call(DataType type, Operator op, std::size_t elements, int sources, int targets) {
    Call call{reduction(type, op), elements, sources, targets};
    call.finish = below(2) == 0;
    call.aliased_source = static_cast<int>(below(static_cast<std::uint64_t>(sources) + 1)) - 1;
    return call;
  }

  /// Runs the call on these kernels and compares every target and every source, all in guarded memory.
  std::string wrong(const Reducer& reducer, const Call& call) {
    const DataType type = call.reduction.type;
    const std::size_t size = element_bytes(type), bytes = call.elements * size;
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<Source> sources;
    std::vector<std::vector<std::byte>> before;
    std::vector<bool> raw;
    for (int k = 0; k < call.sources; ++k) {
      std::byte* data = add(memory, bytes);
      for (std::size_t i = 0; i < call.elements; ++i) {
        const std::uint64_t bits = element(type);
        std::memcpy(data + i * size, &bits, size);
      }
      before.emplace_back(data, data + bytes);
      raw.push_back(below(2) == 0);
      sources.push_back({data, raw.back()});
    }
    std::vector<std::byte*> targets;
    std::vector<bool> written(sources.size());
    for (int k = 0; k < call.targets; ++k) {
      const bool aliased = call.aliased_source >= 0 && (k == 0 || call.all_aliased);
      const auto source = static_cast<std::size_t>((call.aliased_source + k) % call.sources);
      if (aliased) written[source] = true;
      targets.push_back(aliased ? memory[source]->data() : add(memory, bytes));
    }
    reducer.find(type, call.reduction.op)(call.reduction, sources.data(), call.sources, targets.data(), call.targets,
                                          call.elements, call.finish);
    for (std::byte* target : targets) {
      if (std::string text = first_wrong(call, before, raw, target); !text.empty()) return text;
    }
    for (std::size_t k = 0; k < sources.size(); ++k) {
      if (written[k]) continue;
      if (!std::equal(before[k].begin(), before[k].end(), sources[k].data)) return "a source was written";
    }
    return {};
  }

 private:
  // Half of the memory ends at the forbidden page, the rest begins behind one, at any alignment.
  std::byte* add(std::vector<std::unique_ptr<Guarded>>& memory, std::size_t bytes) {
    memory.push_back(std::make_unique<Guarded>(bytes, below(2) == 0, below(3) == 0 ? 0 : below(70)));
    return memory.back()->data();
  }

  std::mt19937_64 random_;
};

/// Reduces the same operands, without a pre-operator but `raw`, on every reducer; the bits of each.
std::vector<std::vector<std::byte>> on_every_reducer(const Reduction& reduction, bool raw,
                                                     const std::vector<std::vector<std::byte>>& operands) {
  std::vector<std::vector<std::byte>> results;
  std::vector<Source> sources;
  for (const std::vector<std::byte>& operand : operands) sources.push_back({operand.data(), raw});
  for (const HostReducer& reducer : host_reducers()) {
    std::vector<std::byte> result(operands[0].size());
    std::byte* target = result.data();
    reducer.reducer->find(reduction.type, reduction.op)(reduction, sources.data(), static_cast<int>(sources.size()),
                                                        &target, 1, result.size() / element_bytes(reduction.type),
                                                        true);
    results.push_back(std::move(result));
  }
  return results;
}

template <class Visit>
void for_each_kernel(Visit&& visit) {
  for (const HostReducer& reducer : host_reducers()) {
    for (DataType type : all_types) {
      for (Operator op : all_operators) visit(*reducer.reducer, type, op, std::string(reducer.instruction_set));
    }
  }
}

}  // namespace

TEST_CASE("every instruction set that the processor has is tried") {
  std::string flags;
  std::ifstream file("/proc/cpuinfo");
  while (flags.rfind("flags", 0) != 0 && std::getline(file, flags)) {
  }
  std::istringstream words(flags);
  const std::set<std::string> has{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> wanted{"portable"}, found;
#if defined(RONDO_VECTOR_KERNELS)
  // What of an instruction set Highway needs, older ones included, comes in the processors that have this of it.
  for (const auto& [set, flag] : {std::pair{"avx2", "avx2"}, {"avx512", "avx512bw"}, {"avx512_fp16", "avx512_fp16"}}) {
    if (has.count(flag) != 0) wanted.insert(wanted.begin(), set);
  }
#endif
  for (const HostReducer& reducer : host_reducers()) found.emplace_back(reducer.instruction_set);
  CHECK(found == wanted);
}

TEST_CASE("every type and operator, every length to 130 and some beyond") {
  Fixture fixture(1);
  for_each_kernel([&](const Reducer& reducer, DataType type, Operator op, const std::string& set) {
    INFO(set);
    for (std::size_t elements = 0; elements < 145; ++elements) {
      const std::size_t count = elements <= 130 ? elements : 131 + fixture.below(2000);
      const int sources = 1 + static_cast<int>(fixture.below(3)), targets = 1 + static_cast<int>(fixture.below(2));
      REQUIRE(fixture.wrong(reducer, fixture.call(type, op, count, sources, targets)) == "");
    }
  });
}

TEST_CASE("one to nine sources, one to three targets") {
  Fixture fixture(2);
  for_each_kernel([&](const Reducer& reducer, DataType type, Operator op, const std::string& set) {
    INFO(set);
    for (int sources = 1; sources <= 9; ++sources) {
      for (int targets = 1; targets <= 3; ++targets) {
        REQUIRE(fixture.wrong(reducer, fixture.call(type, op, fixture.below(400), sources, targets)) == "");
      }
    }
  });
}

TEST_CASE("slices that are swept at several places at once, in place of one or of all sources") {
  Fixture fixture(6);
  const bool sweeps_pages = kernels::sweeps_pages;
  for_each_kernel([&](const Reducer& reducer, DataType type, Operator op, const std::string& set) {
    INFO(set);
    for (int call = 0; call < 4; ++call) {
      kernels::sweeps_pages = call > 0;
      const std::size_t elements = (31 * 1024 + fixture.below(9 * 1024)) / element_bytes(type);
      const int sources = 1 + static_cast<int>(fixture.below(2)), targets = 1 + static_cast<int>(fixture.below(2));
      Call large = fixture.call(type, op, elements, sources, targets);
      large.all_aliased = targets <= sources;
      REQUIRE(fixture.wrong(reducer, large) == "");
    }
  });
  kernels::sweeps_pages = sweeps_pages;
}

TEST_CASE("a copy of any size to any alignment") {
  Fixture fixture(3);
  for (const HostReducer& reducer : host_reducers()) {
    for (std::size_t bytes : {15, 16, 17, 63, 64, 65, 127, 129, 4096, 65535, 65536, 65537, 100001, 131072, 131073}) {
      for (int targets = 1; targets <= 3; ++targets) {
        const Call call = fixture.call(DataType::uint8, Operator::sum, bytes, 1, targets);
        REQUIRE(fixture.wrong(*reducer.reducer, call) == "");
      }
    }
  }
}

TEST_CASE("every pair of 8-bit floats, every 16-bit float") {
  for (DataType type : {DataType::float8_e4m3, DataType::float8_e5m2, DataType::float16, DataType::bfloat16}) {
    const bool pairs = element_bytes(type) == 1;
    const std::size_t size = element_bytes(type);
    std::vector<std::vector<std::byte>> operands(2, std::vector<std::byte>(65536 * size));
    Fixture fixture(4);
    for (std::uint64_t i = 0; i < 65536; ++i) {
      const std::uint64_t first = pairs ? i >> 8 : i, second = pairs ? i & 255 : fixture.element(type);
      std::memcpy(operands[0].data() + i * size, &first, size);
      std::memcpy(operands[1].data() + i * size, &second, size);
    }
    for (Operator op : all_operators) {
      const Call call{{type, op, 3, reference::encode(type, -1.75)}, 65536};
      for (const std::vector<std::byte>& result : on_every_reducer(call.reduction, true, operands)) {
        REQUIRE(first_wrong(call, operands, {true, true}, result.data()) == "");
      }
    }
  }
}

// The second is no NaN: which of two NaNs a sum gives is not promised.
TEST_CASE("every bfloat16 with every subnormal one, special ones and others, on every instruction set") {
  if (host_reducers().size() == 1) return;  // the sanitized builds, for which it would be long
  Fixture fixture(7);
  std::vector<std::uint16_t> seconds{0, 0x3f80, 0x7f7f, 0x7f80};
  for (std::uint16_t subnormal = 1; subnormal <= 0x80; ++subnormal) seconds.push_back(subnormal);
  for (int i = 0; i < 100; ++i) seconds.push_back(static_cast<std::uint16_t>(fixture.below(0x7f80)));
  std::vector<std::vector<std::byte>> operands(2, std::vector<std::byte>(std::size_t(65536) * 2));
  for (std::size_t i = 0; i < 65536; ++i) {
    const auto first = static_cast<std::uint16_t>(i);
    std::memcpy(operands[0].data() + 2 * i, &first, 2);
  }
  for (std::size_t pair = 0; pair < 2 * seconds.size(); ++pair) {
    const auto second = static_cast<std::uint16_t>(seconds[pair / 2] | (pair % 2 << 15));
    for (std::size_t i = 0; i < 65536; ++i) std::memcpy(operands[1].data() + 2 * i, &second, 2);
    for (Operator op : {Operator::sum, Operator::prod}) {
      const auto results = on_every_reducer({DataType::bfloat16, op}, false, operands);
      for (const std::vector<std::byte>& result : results) {
        INFO("second operand " << second << ", operator " << int(op));
        REQUIRE(std::memcmp(result.data(), results.back().data(), result.size()) == 0);
      }
    }
  }
}

TEST_CASE("every instruction set gives the same bits") {
  Fixture fixture(5);
  for (DataType type : all_types) {
    for (Operator op : all_operators) {
      const std::size_t size = element_bytes(type), elements = 4099;
      std::vector<std::vector<std::byte>> operands(3, std::vector<std::byte>(elements * size));
      for (std::vector<std::byte>& operand : operands) {
        for (std::size_t i = 0; i < elements; ++i) {
          const std::uint64_t bits = fixture.element(type);
          std::memcpy(operand.data() + i * size, &bits, size);
        }
      }
      const auto results = on_every_reducer(fixture.reduction(type, op), true, operands);
      const bool selects = op == Operator::min || op == Operator::max;
      for (const std::vector<std::byte>& result : results) {
        std::size_t different = 0;
        for (std::size_t i = 0; i < elements; ++i) {
          const std::uint64_t left = bits_at(result.data(), i, size), right = bits_at(results[0].data(), i, size);
          different += selects ? left != right : !reference::same(type, left, right);
        }
        REQUIRE(different == 0);
      }
    }
  }
}

TEST_CASE("signs of zero and NaN in minima and maxima, in any order") {
  for (const HostReducer& reducer : host_reducers()) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float cases[][4] = {{0.0f, -0.0f, -0.0f, 0.0f}, {nan, 1, nan, nan}, {-INFINITY, nan, nan, nan}, {2, 3, 2, 3}};
    for (const auto& [first, second, smallest, largest] : cases) {
      for (bool swapped : {false, true}) {
        const float a = swapped ? second : first, b = swapped ? first : second;
        const Source sources[2] = {{reinterpret_cast<const std::byte*>(&a), true},
                                   {reinterpret_cast<const std::byte*>(&b), true}};
        for (Operator op : {Operator::min, Operator::max}) {
          float result = 7;
          std::byte* target = reinterpret_cast<std::byte*>(&result);
          reducer.reducer->find(DataType::float32, op)({DataType::float32, op}, sources, 2, &target, 1, 1, true);
          const float wanted = op == Operator::min ? smallest : largest;
          const bool right = std::isnan(wanted) ? std::isnan(result)
                                                : result == wanted && std::signbit(result) == std::signbit(wanted);
          REQUIRE(right);
        }
      }
    }
  }
}

TEST_CASE("the comparison sees a wrong operator") {
  class Wrong final : public Reducer {
    ReduceFunction find(DataType type, Operator) const noexcept override {
      return host_reducer().find(type, Operator::prod);
    }
  };
  Fixture fixture(6);
  for (DataType type : all_types) {
    Call call = fixture.call(type, Operator::sum, 100, 2, 1);
    REQUIRE(fixture.wrong(Wrong(), call) != "");
  }
}
