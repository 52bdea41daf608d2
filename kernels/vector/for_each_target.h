// Names a function of each target's namespace that this file was compiled for. Highway's own
// dispatch would need its library at run time, and takes what it holds for the best.
#pragma once

#include "hwy/highway.h"

#if HWY_TARGETS & HWY_AVX3_DL
#define KERF_IF_AVX3_DL(target, function) \
  if (target == HWY_AVX3_DL) return N_AVX3_DL::function
#else
#define KERF_IF_AVX3_DL(target, function) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_AVX3
#define KERF_IF_AVX3(target, function) \
  if (target == HWY_AVX3) return N_AVX3::function
#else
#define KERF_IF_AVX3(target, function) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_AVX2
#define KERF_IF_AVX2(target, function) \
  if (target == HWY_AVX2) return N_AVX2::function
#else
#define KERF_IF_AVX2(target, function) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_SSE4
#define KERF_IF_SSE4(target, function) \
  if (target == HWY_SSE4) return N_SSE4::function
#else
#define KERF_IF_SSE4(target, function) static_cast<void>(target)
#endif
#if HWY_TARGETS & HWY_NEON
#define KERF_IF_NEON(target, function) \
  if (target == HWY_NEON) return N_NEON::function
#else
#define KERF_IF_NEON(target, function) static_cast<void>(target)
#endif

#define KERF_RETURN_FOR_TARGET(target, function) \
  KERF_IF_AVX3_DL(target, function);             \
  KERF_IF_AVX3(target, function);                \
  KERF_IF_AVX2(target, function);                \
  KERF_IF_SSE4(target, function);                \
  KERF_IF_NEON(target, function)
