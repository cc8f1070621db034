// Sums and products of two float16 operands by the processor's own float16 arithmetic (AVX-512 FP16), which spares
// widening to float32 and rounding back.  The bits are the same: float32 holds the product of two float16 exactly, and
// its 24 bits are at least 2 * 11 + 2, so that rounding a sum first to float32 and then to float16 is rounding it once
// (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995).  Three operands and more are added
// in float32 as before.
#include <immintrin.h>

#include "kernels/table.h"

namespace rondo::kernels {
namespace {

constexpr std::size_t lanes = 32;

/// What takes other numbers of operands than two.  Set once, while the tables are made.
template <Operator op>
ReduceFunction wide = nullptr;

template <Operator op>
[[gnu::target("avx512fp16,avx512bw,avx512vl")]] inline __m512i combine(__m512i left, __m512i right) {
  const __m512h a = _mm512_castsi512_ph(left), b = _mm512_castsi512_ph(right);
  return _mm512_castph_si512(op == Operator::sum ? _mm512_add_ph(a, b) : _mm512_mul_ph(a, b));
}

template <Operator op>
[[gnu::target("avx512fp16,avx512bw,avx512vl")]] inline __m512i combine_at(const std::byte* left,
                                                                          const std::byte* right) {
  return combine<op>(_mm512_loadu_si512(left), _mm512_loadu_si512(right));
}

template <Operator op>
[[gnu::target("avx512fp16,avx512bw,avx512vl")]] void reduce_half(const Reduction& reduction, const Source* sources,
                                                                 int source_count, std::byte* const* targets,
                                                                 int target_count, std::size_t elements,
                                                                 bool finish) noexcept {
  if (source_count != 2) {
    return wide<op>(reduction, sources, source_count, targets, target_count, elements, finish);
  }
  const std::byte *left = sources[0].data, *right = sources[1].data;
  std::size_t index = 0;
  if (target_count == 1) {
    std::byte* const target = targets[0];
    for (; index + lanes <= elements; index += lanes) {
      _mm512_storeu_si512(target + 2 * index, combine_at<op>(left + 2 * index, right + 2 * index));
    }
  }
  for (; index + lanes <= elements; index += lanes) {
    const __m512i bits = combine_at<op>(left + 2 * index, right + 2 * index);
    for (int k = 0; k < target_count; ++k) _mm512_storeu_si512(targets[k] + 2 * index, bits);
  }
  if (index == elements) return;
  const __mmask32 rest = (__mmask32(1) << (elements - index)) - 1;
  const __m512i bits =
      combine<op>(_mm512_maskz_loadu_epi16(rest, left + 2 * index), _mm512_maskz_loadu_epi16(rest, right + 2 * index));
  for (int k = 0; k < target_count; ++k) _mm512_mask_storeu_epi16(targets[k] + 2 * index, rest, bits);
}

template <Operator op>
void replace(Table& table) {
  wide<op> = table.find(DataType::float16, op);
  table.set(DataType::float16, op, reduce_half<op>);
}

}  // namespace

void add_native_half(Table& table) {
  replace<Operator::sum>(table);
  replace<Operator::prod>(table);
}

}  // namespace rondo::kernels
