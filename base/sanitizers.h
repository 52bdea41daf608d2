// Which sanitizer this is compiled with: 1 or 0, for the preprocessor too.
#pragma once

#if defined(__has_feature)
#define KERF_HAS_FEATURE(feature) __has_feature(feature)
#else
#define KERF_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || KERF_HAS_FEATURE(address_sanitizer)
#define KERF_ADDRESS_SANITIZER 1
#else
#define KERF_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || KERF_HAS_FEATURE(thread_sanitizer)
#define KERF_THREAD_SANITIZER 1
#else
#define KERF_THREAD_SANITIZER 0
#endif

namespace kerf {

// Whether a sanitizer looks at each step, which makes it many times as slow: a test of many rounds
// plays some of them then, and all of them without one.
inline constexpr bool kIsSanitized = KERF_ADDRESS_SANITIZER || KERF_THREAD_SANITIZER;

// Whether the memory that this process takes is what kerf takes: a sanitizer has its own maps, and
// gives freed memory back late.
inline constexpr bool kMemoryIsOurs = !kIsSanitized;

// Whether a process may be without file descriptors. The sanitizer of undefined behaviour, which
// comes with that of addresses, asks a pipe whether an object is where it should be.
inline constexpr bool kCanLackFiles = !KERF_ADDRESS_SANITIZER;

}  // namespace kerf
