#include "client/agent/backup/who_cuts.h"

#include <gtest/gtest.h>

#include "kernels/registry.h"

namespace kerf::agent {
namespace {

TEST(WhoCutsTest, IsOneOfThree) {
  EXPECT_EQ(*ParseWhoCuts("remote"), WhoCuts::kServer);
  EXPECT_EQ(*ParseWhoCuts("local"), WhoCuts::kAgent);
  EXPECT_EQ(*ParseWhoCuts("auto"), WhoCuts::kFaster);
  EXPECT_FALSE(ParseWhoCuts("Local").ok());
  EXPECT_FALSE(ParseWhoCuts("").ok());
}

TEST(WhoCutsTest, WhoHasSlowKernelsLeavesItToTheServer) {
  const Profile rule = *ParseProfile("mincdc-8k");
  EXPECT_EQ(CutterFor(WhoCuts::kServer, rule), v1::CUTTER_UNSPECIFIED);
  EXPECT_EQ(CutterFor(WhoCuts::kAgent, rule), v1::CUTTER_CLIENT);
  ASSERT_TRUE(SetDefaultBackend("plain").ok());
  EXPECT_EQ(CutterFor(WhoCuts::kFaster, rule), v1::CUTTER_UNSPECIFIED);
  EXPECT_EQ(CutterFor(WhoCuts::kAgent, rule), v1::CUTTER_CLIENT);
#if defined(__x86_64__)
  if (SetDefaultBackend("avx2").ok()) {
    EXPECT_EQ(CutterFor(WhoCuts::kFaster, rule), v1::CUTTER_CLIENT_UNLESS_GPU);
  }
#endif
}

}  // namespace
}  // namespace kerf::agent
