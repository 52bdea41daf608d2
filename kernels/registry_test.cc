#include "kernels/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/sanitizers.h"

namespace kerf {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class Registry : public ::testing::Test {
 protected:
  ~Registry() override { EXPECT_TRUE(SetDefaultBackend(kAutomaticBackend).ok()); }

  const Profile ram_ = *ParseProfile("ram-8k");
  const Profile fixed_ = *ParseProfile("fixed:size=5000");
};

TEST_F(Registry, PlainImplementsEverything) {
  EXPECT_EQ(Backends()[0].name, "plain");
  for (const NamedProfile& named : NamedProfiles()) {
    EXPECT_THAT(BackendsFor(*ParseProfile(named.name)), Contains("plain")) << named.name;
  }
}

// Whatever this machine can run. Under the thread sanitizer one is enough (kernels/vector/BUILD).
#if !KERF_THREAD_SANITIZER
TEST_F(Registry, EveryBackendOfTheArchitectureIsBuilt) {
  std::vector<std::string_view> names;
  for (const Backend& backend : Backends()) names.push_back(backend.name);
#if defined(__x86_64__)
  EXPECT_THAT(names, IsSupersetOf({"scalar", "sse4", "avx2", "avx512", "avx512vbmi"}));
#elif defined(__aarch64__)
  EXPECT_THAT(names, IsSupersetOf({"scalar", "neon"}));
#endif
}
#endif

TEST_F(Registry, EveryBackendIsOfUse) {
  for (const Backend& backend : Backends()) {
    if (!backend.runs_here()) continue;
    int algorithm_count = 0;
    for (const NamedProfile& named : NamedProfiles()) {
      algorithm_count += backend.make(*ParseProfile(named.name)) != nullptr ? 1 : 0;
    }
    EXPECT_GT(algorithm_count, 0) << backend.name;
  }
}

TEST_F(Registry, TheChosenOneImplementsTheAlgorithm) {
  for (const NamedProfile& named : NamedProfiles()) {
    const Profile profile = *ParseProfile(named.name);
    EXPECT_THAT(BackendsFor(profile), Contains(ChosenBackend(profile))) << named.name;
  }
}

// What is best for tiny chunks is not taken for large ones, whichever is asked for first.
TEST_F(Registry, TheChoiceGoesByTheSizeOfChunks) {
  ChosenBackend(*ParseProfile("rabin:min=64,avg=256,max=256"));
  const Profile large = *ParseProfile("rabin-8k");
  EXPECT_EQ(ChosenBackend(large) == "plain", BackendsFor(large).size() == 1);
}

TEST_F(Registry, AForcedBackendIsTaken) {
  for (const std::string_view name : BackendsFor(ram_)) {
    ASSERT_TRUE(SetDefaultBackend(name).ok());
    EXPECT_EQ(ChosenBackend(ram_), name);
  }
  ASSERT_TRUE(SetDefaultBackend("scalar").ok());
  // Which does not implement it.
  EXPECT_EQ(ChosenBackend(fixed_), "plain");
}

TEST_F(Registry, WhatCannotBeIsAnError) {
  EXPECT_EQ(SetDefaultBackend("abacus").code(), absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = MakeChunkerOf("abacus", ram_).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("plain"));
  const absl::Status unfit = MakeChunkerOf("scalar", fixed_).status();
  EXPECT_EQ(unfit.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unfit.message()), HasSubstr("auto, plain do"));
  for (const Backend& backend : Backends()) {
    if (backend.runs_here()) continue;
    EXPECT_EQ(SetDefaultBackend(backend.name).code(), absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace kerf
