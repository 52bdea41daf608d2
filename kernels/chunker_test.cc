#include "kernels/chunker.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "kernels/profile.h"
#include "kernels/registry.h"
#include "kernels/testing/chunker_conformance.h"

namespace kerf {
namespace {

class ChunkerConformance : public ::testing::TestWithParam<const char*> {};

TEST_P(ChunkerConformance, HoldsForEveryBackend) {
  const Profile profile = *ParseProfile(GetParam());
  for (const std::string_view backend : BackendsFor(profile)) {
    SCOPED_TRACE(backend);
    CheckChunkerConforms(**MakeChunkerOf(backend, profile), profile);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, ChunkerConformance,
    ::testing::Values(
        "fastcdc2020-4k", "fastcdc2020-8k", "fastcdc-8k",
        // Metadata streams.
        "fastcdc2020:min=512,avg=2048,max=16384,level=1",
        // Edges: smallest sizes, no room between them, odd sizes, every level.
        "fastcdc2020:min=64,avg=1024,max=1024,level=0",
        "fastcdc2020:min=1024,avg=1024,max=1024,level=0",
        "fastcdc2020:min=64,avg=8192,max=65534,level=3", "fastcdc:min=64,avg=256,max=256,level=3",
        "fastcdc:min=65,avg=256,max=257,level=0", "fastcdc:min=511,avg=1024,max=9999,level=1",
        // The others: as named, and at the edges of their parameters.
        "fixed:size=64", "fixed:size=5000", "rabin-8k", "rabin:min=64,avg=256,max=256",
        "rabin:min=65,avg=1024,max=4097", "crc-8k", "crc:min=256,bits=6,max=256",
        "crc:min=257,bits=9,max=5001", "tttd-8k", "tttd:min=64,avg=256,max=300", "ae-max-8k",
        "ae-min-8k", "ae-max:window=64,max=65", "ae-min:window=100,max=5000", "maxp-8k",
        "maxp:window=64,max=129", "maxp:window=100,max=1000", "maxp-local-8k",
        "maxp-local:window=64,max=129", "maxp-local:window=100,max=1000", "ram-8k",
        "ram:window=64,max=65", "ram:window=777,max=5000", "seqcdc-8k", "seqcdc-16k",
        "seqcdc:mode=decreasing,length=3,trigger=5,skip=100,min=64,max=3000",
        "seqcdc:mode=increasing,length=1,trigger=1,skip=0,min=64,max=64", "mincdc-8k",
        "mincdc:min=64,max=64", "mincdc:min=64,max=1001", "gear-8k", "gear:min=64,avg=256,max=256",
        "gear:min=65,avg=256,max=999", "gear:min=333,avg=65536,max=70001", "maxcdc-8k",
        "maxcdc:min=64,max=64", "maxcdc:min=65,max=1001"));

}  // namespace
}  // namespace kerf
