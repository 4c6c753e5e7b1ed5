// What a program's text needs: the C library's functions, and conversions of float16.
#ifndef TILEOPS_PRELUDE_H
#define TILEOPS_PRELUDE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

extern "C" inline float tileops_widen_one(uint16_t stored) {
#if defined(__F16C__)
  return _cvtsh_ss(stored);
#elif defined(__ARM_FP16_FORMAT_IEEE)
  __fp16 value;
  memcpy(&value, &stored, 2);
  return (float)value;
#else
  uint32_t magnitude = stored & 0x7fffu, bits;
  if (magnitude < 0x0400u) {  // subnormal: an integer, exact, then the exponent
    float integer = (float)(int32_t)magnitude;
    memcpy(&bits, &integer, 4);
    bits = magnitude ? bits - (24u << 23) : 0u;
  } else {
    bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 224u << 23 : 112u << 23);
  }
  bits |= (uint32_t)(stored & 0x8000u) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
#endif
}

extern "C" inline uint16_t tileops_narrow_one(float value) {
#if defined(__F16C__)
  return _cvtss_sh(value, 0);
#elif defined(__ARM_FP16_FORMAT_IEEE)
  __fp16 narrow = (__fp16)value;
  uint16_t stored;
  memcpy(&stored, &narrow, 2);
  return stored;
#else
  uint32_t bits, narrow;
  memcpy(&bits, &value, 4);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude < (113u << 23)) {  // one half has its last place where a subnormal has it
    float shifted;
    memcpy(&shifted, &magnitude, 4);
    shifted += 0.5f;
    memcpy(&narrow, &shifted, 4);
    narrow -= 0x3f000000u;
  } else if (magnitude >= 0x477ff000u) {
    narrow = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else {
    narrow = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return (uint16_t)(narrow | ((bits >> 16) & 0x8000u));
#endif
}

extern "C" int32_t tileops_widen_float16(uint16_t* x, float* y, int32_t count) {
  int32_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(x + i))));
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(x + i))));
#endif
  for (; i < count; ++i) y[i] = tileops_widen_one(x[i]);
  return 0;
}

extern "C" int32_t tileops_narrow_float16(float* x, uint16_t* y, int32_t count) {
  int32_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm256_storeu_si256((__m256i*)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), 0));
#endif
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128((__m128i*)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#endif
  for (; i < count; ++i) y[i] = tileops_narrow_one(x[i]);
  return 0;
}

#endif
