#include "kernels/chunker.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/profile.h"
#include "kernels/testing/chunker_conformance.h"

namespace kerf {
namespace {

class ChunkerConformance : public ::testing::TestWithParam<const char*> {};

TEST_P(ChunkerConformance, Holds) {
  const Profile profile = *ParseProfile(GetParam());
  CheckChunkerConforms(*MakeChunker(profile), profile);
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, ChunkerConformance,
    ::testing::Values("fastcdc2020-4k", "fastcdc2020-8k", "fastcdc-8k",
                      // Metadata streams.
                      "fastcdc2020:min=512,avg=2048,max=16384,level=1",
                      // Edges: smallest sizes, no room between them, odd sizes, every level.
                      "fastcdc2020:min=64,avg=1024,max=1024,level=0",
                      "fastcdc2020:min=1024,avg=1024,max=1024,level=0",
                      "fastcdc2020:min=64,avg=8192,max=65534,level=3",
                      "fastcdc:min=64,avg=256,max=256,level=3",
                      "fastcdc:min=65,avg=256,max=257,level=0",
                      "fastcdc:min=511,avg=1024,max=9999,level=1"));

}  // namespace
}  // namespace kerf
