// Vectors as wide as the instruction set has them, in fp32, read from and written to fp32 or bfloat16.

#pragma once

#include <cstdint>

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(kLanes * 2), aligned(2), may_alias));
typedef uint16_t bfloat16;

Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }
Floats load(const bfloat16* from) {
  Words wide = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16;
  return reinterpret_cast<Floats>(wide);
}
void store(float* to, Floats values) { *reinterpret_cast<Floats*>(to) = values; }
void store(bfloat16* to, Floats values) {
  Words bits = reinterpret_cast<Words>(values);
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;  // to nearest, ties to even
  Words whole = bits >> 16 | 64;  // a NaN stays one
  auto nan = values != values;
  rounded = reinterpret_cast<Words>(nan) & whole | ~reinterpret_cast<Words>(nan) & rounded;
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector(rounded, Halves);
}

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));
float sum(Eight values) {
  Four four = __builtin_shufflevector(values, values, 0, 1, 2, 3) + __builtin_shufflevector(values, values, 4, 5, 6, 7);
  four += __builtin_shufflevector(four, four, 2, 3, 0, 1);
  return four[0] + four[1];
}
#ifdef __AVX512F__
float sum(Floats values) {
  return sum(__builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15));
}
#endif

// Lane i is the sum of vector i.
Floats sums(Floats* vectors) {
  for (int count = kLanes / 2; count; count /= 2)
    for (int one = 0; one < count; ++one) {
      const Floats left = vectors[2 * one], right = vectors[2 * one + 1];
#ifdef __AVX512F__
      vectors[one] = __builtin_shufflevector(left, right, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
                     __builtin_shufflevector(left, right, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
      vectors[one] = __builtin_shufflevector(left, right, 0, 2, 4, 6, 8, 10, 12, 14) +
                     __builtin_shufflevector(left, right, 1, 3, 5, 7, 9, 11, 13, 15);
#endif
    }
  return vectors[0];
}

// e^x, since libm's takes one number at a time: 2^n times the series of the rest, which is at most ln 2 / 2.
// 0 below the smallest normal number; a NaN stays one.
Floats exponential(Floats x) {
  const Floats low = Floats{} - 87.0f, high = Floats{} + 88.0f;
  const Floats within = x > high ? high : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  const Floats n = (within * 1.44269504f + magic) - magic;
  const Floats rest = (within - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first short
  Floats series = Floats{} + 1.0f / 5040;
  for (float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) series = series * rest + factor;
  Words scale = reinterpret_cast<Words>(__builtin_convertvector(n, Ints) + 127) << 23;
  return x < low ? Floats{} : series * reinterpret_cast<Floats>(scale);
}

}  // namespace
