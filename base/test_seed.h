// The one seed of a test run.
#pragma once

#include <cstdint>

namespace kerf {

// KERF_TEST_SEED if it is set, else a fresh one each run. A failing test program prints it with the
// line that replays it.
std::uint64_t TestSeed();

}  // namespace kerf
