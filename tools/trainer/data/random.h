// Random numbers that depend on what they are for, and on nothing else: the same for any number of threads, ranks or
// restarts.  The generator is SplitMix64: its state is a hash of the words given (seed, epoch, index, ...), advanced by
// the odd constant 0x9e3779b97f4a7c15 and mixed by two multiplications and three shifts (Steele, Lea, Flood: "Fast
// splittable pseudorandom number generators", 2014).
#pragma once

#include <cstdint>
#include <initializer_list>

namespace rondo::data {

class Random {
 public:
  explicit Random(std::initializer_list<std::uint64_t> words) {
    for (const std::uint64_t word : words) state_ = mixed(state_ + golden) ^ word;
    state_ = mixed(state_ + golden);
  }

  std::uint64_t next() { return mixed(state_ += golden); }

  /// 0 <= result < count (count > 0): the high half of a 128-bit product; its bias is below count / 2^64.
  std::uint64_t below(std::uint64_t count) {
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * count) >> 64);
  }

  /// low <= result < high, in steps of (high - low) / 2^53.
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }

  bool coin() { return next() >> 63 != 0; }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t state_ = 0;
};

/// The first word of every use, so that uses with equal seeds draw different numbers.
enum class Use : std::uint64_t { order = 1, augmentation = 2, synthetic_label = 3, synthetic_class = 4, noise = 5 };

inline Random random_for(Use use, std::uint64_t seed, std::uint64_t first = 0, std::uint64_t second = 0) {
  return Random{static_cast<std::uint64_t>(use), seed, first, second};
}

}  // namespace rondo::data
