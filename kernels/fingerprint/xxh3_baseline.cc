#define KERF_XXH3_TARGET kBaseline
#define KERF_XXH3_NAME "baseline"
#include "kernels/fingerprint/xxh3_target-inl.h"
