#if defined(__x86_64__)
#define KERF_XXH3_TARGET kAvx2
#define KERF_XXH3_NAME "avx2"
#include "kernels/fingerprint/xxh3_target-inl.h"
#endif
