// The loops of the vector kernels: whole slices in one pass, any number of sources and targets, any alignment, never a
// byte outside.  Included once for each instruction set, as vector_formats.h.
//
// A slice of at least one vector ends with a vector that may overlap the one before it.  That last vector is reduced
// first and stored last: where a target is a source, it is reduced from what the source held, and stores the same bits
// again.  A slice shorter than a full vector is done in 16-byte vectors the same way; one shorter than 16 bytes is
// gathered from general registers, so that 8 bytes take a few instructions.
#if defined(HWY_RONDO_VECTOR_LOOPS) == defined(HWY_TARGET_TOGGLE)
#ifdef HWY_RONDO_VECTOR_LOOPS
#undef HWY_RONDO_VECTOR_LOOPS
#else
#define HWY_RONDO_VECTOR_LOOPS
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/table.h"
#include "kernels/vector_formats.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::kernels::HWY_NAMESPACE {

/// Copies `bytes` bytes to every target.
void copy(const Source* source, std::byte* const* targets, int target_count, std::size_t bytes) noexcept;

// Pointers in registers where their number is known when compiled, else the caller's lists.
template <class Lane, int count_>
struct Inputs {
  const Lane* data[count_];
  bool is_raw[count_];
  HWY_INLINE Inputs(const Source* sources, int) {
    for (int k = 0; k < count_; ++k) {
      data[k] = reinterpret_cast<const Lane*>(sources[k].data);
      is_raw[k] = sources[k].raw;
    }
  }
  HWY_INLINE int count() const { return count_; }
  HWY_INLINE const Lane* at(int k) const { return data[k]; }
  HWY_INLINE bool raw(int k) const { return is_raw[k]; }
};
template <class Lane>
struct Inputs<Lane, 0> {
  const Source* sources;
  int sources_count;
  HWY_INLINE Inputs(const Source* list, int count) : sources(list), sources_count(count) {}
  HWY_INLINE int count() const { return sources_count; }
  HWY_INLINE const Lane* at(int k) const { return reinterpret_cast<const Lane*>(sources[k].data); }
  HWY_INLINE bool raw(int k) const { return sources[k].raw; }
};
template <class Lane, int count_>
struct Outputs {
  Lane* data[count_];
  HWY_INLINE Outputs(std::byte* const* targets, int) {
    for (int k = 0; k < count_; ++k) data[k] = reinterpret_cast<Lane*>(targets[k]);
  }
  HWY_INLINE int count() const { return count_; }
  HWY_INLINE Lane* at(int k) const { return data[k]; }
};
template <class Lane>
struct Outputs<Lane, 0> {
  std::byte* const* targets;
  int targets_count;
  HWY_INLINE Outputs(std::byte* const* list, int count) : targets(list), targets_count(count) {}
  HWY_INLINE int count() const { return targets_count; }
  HWY_INLINE Lane* at(int k) const { return reinterpret_cast<Lane*>(targets[k]); }
};

// `vectors` neighbouring vectors, a power of two, as nested pairs.
template <int vectors, class K, class D>
HWY_INLINE auto load(D d, const K& kernel, const typename K::Lane* source, bool raw) {
  if constexpr (vectors == 1) {
    return kernel.before(d, load_values<typename K::Format>(d, source), raw);
  } else {
    const auto first = load<vectors / 2>(d, kernel, source, raw);
    return Pair{first, load<vectors / 2>(d, kernel, source + vectors / 2 * hn::Lanes(d), raw)};
  }
}
template <int vectors, class K, class D, class V>
HWY_INLINE auto finish(D d, const K& kernel, const V& values) {
  if constexpr (vectors == 1) {
    return Vectors<typename K::Format>::pack(d, kernel.after(d, values));
  } else {
    const auto first = finish<vectors / 2>(d, kernel, values.first);
    return Pair{first, finish<vectors / 2>(d, kernel, values.second)};
  }
}
template <int vectors, class D, class V>
HWY_INLINE void store(D d, const V& bits, hn::TFromD<D>* target) {
  if constexpr (vectors == 1) {
    hn::StoreU(bits, d, target);
  } else {
    store<vectors / 2>(d, bits.first, target);
    store<vectors / 2>(d, bits.second, target + vectors / 2 * hn::Lanes(d));
  }
}

template <int vectors, class K, class D, class I>
HWY_INLINE auto reduce_at(D d, const K& kernel, const I& inputs, std::size_t index) {
  auto values = load<vectors>(d, kernel, inputs.at(0) + index, inputs.raw(0));
  for (int k = 1; k < inputs.count(); ++k) {
    values = each<typename K::Combine>(values, load<vectors>(d, kernel, inputs.at(k) + index, inputs.raw(k)));
  }
  return finish<vectors>(d, kernel, values);
}

template <int vectors, class D, class O, class V>
HWY_INLINE void store_at(D d, const O& outputs, std::size_t index, const V& bits) {
  for (int k = 0; k < outputs.count(); ++k) store<vectors>(d, bits, outputs.at(k) + index);
}

// From here on a copy, or a result that is stored twice, is swept at several places at once.
constexpr std::size_t streams_bytes_min = 32 * 1024;

/// At least streams_bytes_min.  What another core wrote last comes over line by line, and the processor fetches ahead
/// within a page only: so this goes on in four pages at once, which measured beside one after another takes 5.7 us for
/// 7.9 of 128 KiB.  Vectors of the first target begin at lines, as stores across two cost most.  The first vector is
/// reduced first and stored late, as the last one is.
template <class K, class D, class I, class O>
HWY_INLINE void sweep_streams(D d, const K& kernel, const I& inputs, const O& outputs, std::size_t elements) {
  using Lane = typename K::Lane;
  constexpr std::size_t streams = 4, page_bytes = 4096, line_bytes = 64;
  const std::size_t lanes = hn::Lanes(d), last = elements - lanes;
  const std::size_t stride_max = page_bytes / sizeof(Lane), line = line_bytes / sizeof(Lane);
  const auto first_bits = reduce_at<1>(d, kernel, inputs, 0);
  const auto last_bits = reduce_at<1>(d, kernel, inputs, last);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(outputs.at(0)) / sizeof(Lane) % lanes;
  std::size_t index = (lanes - past) % lanes;
  for (std::size_t stride; (stride = (last - index) / streams / line * line) > 0; index += streams * stride) {
    stride = HWY_MIN(stride, stride_max);
    for (std::size_t at = index; at < index + stride; at += lanes) {
      const auto a = reduce_at<1>(d, kernel, inputs, at);
      const auto b = reduce_at<1>(d, kernel, inputs, at + stride);
      const auto c = reduce_at<1>(d, kernel, inputs, at + 2 * stride);
      const auto e = reduce_at<1>(d, kernel, inputs, at + 3 * stride);
      store_at<1>(d, outputs, at, a);
      store_at<1>(d, outputs, at + stride, b);
      store_at<1>(d, outputs, at + 2 * stride, c);
      store_at<1>(d, outputs, at + 3 * stride, e);
    }
  }
  for (; index < last; index += lanes) store_at<1>(d, outputs, index, reduce_at<1>(d, kernel, inputs, index));
  store_at<1>(d, outputs, 0, first_bits);
  store_at<1>(d, outputs, last, last_bits);
}

/// At least one vector of elements.
template <int vectors, class K, class D, class I, class O>
HWY_INLINE void sweep(D d, const K& kernel, const I& inputs, const O& outputs, std::size_t elements) {
  const std::size_t lanes = hn::Lanes(d), last = elements - lanes;
  const auto last_bits = reduce_at<1>(d, kernel, inputs, last);
  std::size_t index = 0;
  if constexpr (vectors > 1) {
    for (; index + vectors * lanes <= last; index += vectors * lanes) {
      store_at<vectors>(d, outputs, index, reduce_at<vectors>(d, kernel, inputs, index));
    }
  }
  for (; index < last; index += lanes) store_at<1>(d, outputs, index, reduce_at<1>(d, kernel, inputs, index));
  store_at<1>(d, outputs, last, last_bits);
}

template <class T>
HWY_INLINE std::uint64_t load_as(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}
template <class T>
HWY_INLINE void store_as(std::uint64_t bits, std::byte* data) {
  const T value = static_cast<T>(bits);
  std::memcpy(data, &value, sizeof value);
}

// Up to 8 bytes as the low bytes of a register, by loads that may overlap.
HWY_INLINE std::uint64_t load_short(const std::byte* data, std::size_t bytes) {
  if (bytes == 8) return load_as<std::uint64_t>(data);
  if (bytes >= 4) {
    return load_as<std::uint32_t>(data) | load_as<std::uint32_t>(data + bytes - 4) << (8 * (bytes - 4));
  }
  if (bytes >= 2) {
    return load_as<std::uint16_t>(data) | load_as<std::uint16_t>(data + bytes - 2) << (8 * (bytes - 2));
  }
  return bytes == 1 ? load_as<std::uint8_t>(data) : 0;
}
HWY_INLINE void store_short(std::uint64_t bits, std::byte* data, std::size_t bytes) {
  if (bytes == 8) return store_as<std::uint64_t>(bits, data);
  if (bytes >= 4) {
    store_as<std::uint32_t>(bits, data);
    return store_as<std::uint32_t>(bits >> (8 * (bytes - 4)), data + bytes - 4);
  }
  if (bytes >= 2) {
    store_as<std::uint16_t>(bits, data);
    return store_as<std::uint16_t>(bits >> (8 * (bytes - 2)), data + bytes - 2);
  }
  if (bytes == 1) store_as<std::uint8_t>(bits, data);
}

template <class D>
HWY_INLINE auto load_partial(D d, const std::byte* data, std::size_t bytes) {
  const hn::FixedTag<std::uint64_t, 2> d64;
  if (bytes <= 8) return hn::BitCast(d, hn::InsertLane(hn::Zero(d64), 0, load_short(data, bytes)));
  const auto low = hn::Set(d64, load_as<std::uint64_t>(data));
  return hn::BitCast(d, hn::InsertLane(low, 1, load_short(data + 8, bytes - 8)));
}
template <class V>
HWY_INLINE void store_partial(V bits, std::byte* data, std::size_t bytes) {
  const hn::FixedTag<std::uint64_t, 2> d64;
  const auto halves = hn::BitCast(d64, bits);
  if (bytes <= 8) return store_short(hn::GetLane(halves), data, bytes);
  store_as<std::uint64_t>(hn::GetLane(halves), data);
  store_short(hn::ExtractLane(halves, 1), data + 8, bytes - 8);
}

/// Fewer than 16 bytes.
template <class K>
HWY_INLINE void reduce_partial(const K& kernel, const Source* sources, int source_count, std::byte* const* targets,
                               int target_count, std::size_t bytes) {
  using Format = Vectors<typename K::Format>;
  const hn::FixedTag<typename K::Lane, 16 / sizeof(typename K::Lane)> d;
  auto values = kernel.before(d, Format::unpack(d, load_partial(d, sources[0].data, bytes)), sources[0].raw);
  for (int k = 1; k < source_count; ++k) {
    const auto next = Format::unpack(d, load_partial(d, sources[k].data, bytes));
    values = each<typename K::Combine>(values, kernel.before(d, next, sources[k].raw));
  }
  const auto bits = Format::pack(d, kernel.after(d, values));
  for (int k = 0; k < target_count; ++k) store_partial(bits, targets[k], bytes);
}

/// Fewer bytes than a full vector has.
template <class K>
HWY_NOINLINE void reduce_short(K kernel, const Source* sources, int source_count, std::byte* const* targets,
                               int target_count, std::size_t elements) {
  using Lane = typename K::Lane;
  const std::size_t bytes = elements * sizeof(Lane);
  if (bytes < 16) return reduce_partial(kernel, sources, source_count, targets, target_count, bytes);
  const hn::FixedTag<Lane, 16 / sizeof(Lane)> d;
  sweep<1>(d, kernel, Inputs<Lane, 0>(sources, source_count), Outputs<Lane, 0>(targets, target_count), elements);
}

/// What a reduction does between loading and storing: the Format of its elements, the operation that combines two
/// operands, what it does to one operand before and to the result after.
template <class Format_, class Combine_>
struct Kernel {
  using Format = Format_;
  using Lane = typename Format::Storage;
  using Combine = Combine_;
  // How many vectors of the accumulators are in flight where the number of sources is not known when compiled.
  static constexpr int vectors = sizeof(typename Format::Value) == sizeof(Lane) ? 2 : 1;

  template <class D, class V>
  HWY_INLINE V before(D, V values, bool) const {
    return values;
  }
  template <class D, class V>
  HWY_INLINE V after(D, V values) const {
    return values;
  }
};

/// At least one vector.
template <class K, class D>
HWY_NOINLINE void reduce_long(D d, K kernel, const Source* sources, int source_count, std::byte* const* targets,
                              int target_count, std::size_t elements) {
  using Lane = typename K::Lane;
  const bool large = sweeps_pages && elements >= streams_bytes_min / sizeof(Lane);
  if (source_count == 2 && target_count == 1) {
    sweep<1>(d, kernel, Inputs<Lane, 2>(sources, 2), Outputs<Lane, 1>(targets, 1), elements);
  } else if (source_count == 2 && target_count == 2) {
    const Inputs<Lane, 2> inputs(sources, 2);
    const Outputs<Lane, 2> outputs(targets, 2);
    large ? sweep_streams(d, kernel, inputs, outputs, elements) : sweep<1>(d, kernel, inputs, outputs, elements);
  } else {
    const Inputs<Lane, 0> inputs(sources, source_count);
    sweep<K::vectors>(d, kernel, inputs, Outputs<Lane, 0>(targets, target_count), elements);
  }
}

/// Any slice, by a Kernel or its like.
template <class K>
HWY_INLINE void reduce_slice(K kernel, const Source* sources, int source_count, std::byte* const* targets,
                             int target_count, std::size_t elements) {
  using Lane = typename K::Lane;
  const hn::CappedTag<Lane, vector_bytes_max<typename K::Format> / sizeof(Lane)> d;
  if (elements < hn::Lanes(d)) return reduce_short(kernel, sources, source_count, targets, target_count, elements);
  reduce_long(d, kernel, sources, source_count, targets, target_count, elements);
}

/// Operators without a pre- or post-operator.
template <class Format, class Combine>
struct Fold : Kernel<Format, Combine> {
  static void reduce(const Reduction&, const Source* sources, int source_count, std::byte* const* targets,
                     int target_count, std::size_t elements, bool) noexcept {
    if (source_count == 1) {
      return copy(sources, targets, target_count, elements * sizeof(typename Format::Storage));
    }
    reduce_slice(Fold(), sources, source_count, targets, target_count, elements);
  }
};

/// Sums whose raw operands are multiplied first.  A product with a rank's own scalar (premul_sum) rounds to the element
/// type at once: other ranks get it so rounded, and all must add the same values.
template <class Format, Operator op>
struct ScaledSum : Kernel<Format, AddLanes> {
  using Value = typename Format::Value;
  Value scale[2];  // of an operand that is not raw, and of a raw one

  explicit ScaledSum(Value factor) : scale{Value(1), factor} {}
  template <class D, class V>
  HWY_INLINE V before(D d, V values, bool raw) const {
    const typename Vectors<Format>::template ValueTag<D> dv;
    const V product = each_by<MulLanes>(values, hn::Set(dv, scale[raw]));
    if constexpr (op == Operator::premul_sum) {
      if (raw) return Vectors<Format>::unpack(d, Vectors<Format>::pack(d, product));
    }
    return product;
  }

  static void reduce(const Reduction& reduction, const Source* sources, int source_count, std::byte* const* targets,
                     int target_count, std::size_t elements, bool finish) noexcept {
    bool any_raw = false;
    for (int k = 0; k < source_count; ++k) any_raw |= sources[k].raw;
    if (!any_raw) {
      return Fold<Format, AddLanes>::reduce(reduction, sources, source_count, targets, target_count, elements, finish);
    }
    const ScaledSum kernel(factor<Format, op>(reduction));
    reduce_slice(kernel, sources, source_count, targets, target_count, elements);
  }
};

}  // namespace rondo::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
