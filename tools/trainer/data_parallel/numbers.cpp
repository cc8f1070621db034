// Arithmetic on ranges of elements.  float16 goes through the processor's conversion where there is one; everything
// else is plain loops that the compiler vectorizes.
#include "numbers.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rondo::data_parallel {
namespace {

struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

float widen(Bfloat value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
float widen(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
  // As a float whose exponent is 112 too small, multiplied right: exact, also for subnormal ones.
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112f));
}
float widen(float value) { return value; }
double widen(double value) { return value; }

void narrow(float value, float& target) { target = value; }
void narrow(double value, float& target) { target = static_cast<float>(value); }
void narrow(double value, double& target) { target = value; }
void narrow(float value, Bfloat& target) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  target.bits = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
}
void narrow(float value, Half& target) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | ((rest >> 13) & 0x3ffu);
  } else if (rest >= 0x477ff000u) {  // rounds to 2^16 or more
    half = 0x7c00u;
  } else if (rest >= 0x38800000u) {
    half = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  } else {  // subnormal: the addition shifts and rounds
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  }
  target.bits = static_cast<std::uint16_t>(sign | half);
}
// What the compiler would round twice goes through float once: 16-bit targets of float64 lose nothing that matters.
void narrow(double value, Bfloat& target) { narrow(static_cast<float>(value), target); }
void narrow(double value, Half& target) { narrow(static_cast<float>(value), target); }

template <class Source, class Target>
void convert_range(const Source* source, Target* target, std::size_t count, double factor) {
  using Wide = decltype(widen(source[0]));
  const Wide wide_factor = static_cast<Wide>(factor);
  for (std::size_t i = 0; i < count; ++i) narrow(widen(source[i]) * wide_factor, target[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) std::size_t to_half(const float* source, Half* target, std::size_t count,
                                                        float factor) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_mul_ps(_mm256_loadu_ps(source + i), _mm256_set1_ps(factor));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
__attribute__((target("avx,f16c"))) std::size_t from_half(const Half* source, float* target, std::size_t count,
                                                          float factor) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    _mm256_storeu_ps(target + i, _mm256_mul_ps(wide, _mm256_set1_ps(factor)));
  }
  return i;
}
bool has_half() { return __builtin_cpu_supports("avx") != 0 && __builtin_cpu_supports("f16c") != 0; }
#else
std::size_t to_half(const float*, Half*, std::size_t, float) { return 0; }
std::size_t from_half(const Half*, float*, std::size_t, float) { return 0; }
bool has_half() { return false; }
#endif

void convert_range(const float* source, Half* target, std::size_t count, double factor) {
  const std::size_t done = has_half() ? to_half(source, target, count, static_cast<float>(factor)) : 0;
  convert_range<float, Half>(source + done, target + done, count - done, factor);
}
void convert_range(const Half* source, float* target, std::size_t count, double factor) {
  const std::size_t done = has_half() ? from_half(source, target, count, static_cast<float>(factor)) : 0;
  convert_range<Half, float>(source + done, target + done, count - done, factor);
}

/// Calls `body` with a null pointer of the type's C++ type.
template <class Body>
auto with_type(ncclDataType_t type, Body body) {
  switch (type) {
    case ncclFloat16: return body(static_cast<Half*>(nullptr));
    case ncclBfloat16: return body(static_cast<Bfloat*>(nullptr));
    case ncclFloat64: return body(static_cast<double*>(nullptr));
    default: return body(static_cast<float*>(nullptr));
  }
}

template <class Element>
double squares(const Element* data, std::size_t count) {
  std::array<double, 8> sums{};  // side by side, so that additions overlap
  std::size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (std::size_t j = 0; j < sums.size(); ++j) {
      const auto value = static_cast<double>(widen(data[i + j]));
      sums[j] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(widen(data[i])) * static_cast<double>(widen(data[i]));
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

void copy_past_caches(void* target, const void* source, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::size_t large = 256 << 10;
  constexpr std::size_t line = 64;
  if (bytes >= large && reinterpret_cast<std::uintptr_t>(target) % line == 0) {
    auto* to = static_cast<__m128i*>(target);
    const auto* from = static_cast<const __m128i*>(source);
    for (std::size_t lines = bytes / line; lines > 0; --lines, to += 4, from += 4) {
      for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
    }
    _mm_sfence();  // streamed stores are in no order with others
    target = to;
    source = from;
    bytes %= line;
  }
#endif
  std::memcpy(target, source, bytes);
}

void convert(const void* source, ncclDataType_t source_type, void* target, ncclDataType_t target_type,
             std::size_t count, double factor) {
  with_type(source_type, [&]<class Source>(Source*) {
    with_type(target_type, [&]<class Target>(Target*) {
      if constexpr (sizeof(Source) != sizeof(Target)) {
        convert_range(static_cast<const Source*>(source), static_cast<Target*>(target), count, factor);
      }
    });
  });
}

void scale(void* data, ncclDataType_t type, std::size_t count, double factor) {
  with_type(type, [&]<class Element>(Element*) {
    auto* elements = static_cast<Element*>(data);
    convert_range<Element, Element>(elements, elements, count, factor);
  });
}

void add(void* target, const void* source, ncclDataType_t type, std::size_t count) {
  with_type(type, [&]<class Element>(Element*) {
    auto* sums = static_cast<Element*>(target);
    const auto* operands = static_cast<const Element*>(source);
    for (std::size_t i = 0; i < count; ++i) narrow(widen(sums[i]) + widen(operands[i]), sums[i]);
  });
}

double sum_of_squares(const void* data, ncclDataType_t type, std::size_t count) {
  return with_type(type, [&]<class Element>(Element*) { return squares(static_cast<const Element*>(data), count); });
}

void store_one(void* element, ncclDataType_t type) {
  with_type(type, [&]<class Element>(Element*) {
    Element one{};
    narrow(1.0, one);
    std::memcpy(element, &one, sizeof one);
  });
}

bool is_nonzero(const void* element, ncclDataType_t type) {
  return with_type(type, [&]<class Element>(Element*) {
    Element value;
    std::memcpy(&value, element, sizeof value);
    return widen(value) != 0;
  });
}

}  // namespace rondo::data_parallel
