#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/random.h"
#include "base/sanitizers.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

std::uint64_t ChooseSeed() {
  if (const char* text = std::getenv("KERF_TEST_SEED"); text != nullptr && *text != '\0') {
    return std::strtoull(text, nullptr, 0);
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return Random(static_cast<std::uint64_t>(now) ^ (static_cast<std::uint64_t>(getpid()) << 32))
      .Next();
}

}  // namespace

std::uint64_t TestSeed() {
  static const std::uint64_t seed = ChooseSeed();
  return seed;
}

}  // namespace kerf

#if KERF_THREAD_SANITIZER
// The system's absl and OpenSSL are not built with the thread sanitizer, which therefore does not
// see the atomic reference counts and once-only tables in these functions, nor the flag behind
// which OpenSSL reads what it has found out of a certificate, and takes what they guard for a race.
// Nothing of kerf's own is named here.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:absl::debian*::Status::Ref\n"
         "race:absl::debian*::Status::Unref\n"
         "race:absl::debian*::inlined_vector_internal::Storage<absl::debian*::status_internal::\n"
         "race:absl::debian*::base_internal::StrError\n"
         "race:ASN1_STRING_set\n";
}
#endif

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (result != 0) {
    std::fprintf(stderr, "replay with: KERF_TEST_SEED=%llu %s\n",
                 static_cast<unsigned long long>(kerf::TestSeed()), argv[0]);
  }
  return result;
}
