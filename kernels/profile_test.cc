#include "kernels/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace kerf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<Profile> profile = ParseProfile(text);
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(MessageOf(profile.status()));
}

TEST(Profile, NamedProfilesAreCanonical) {
  for (const NamedProfile& named : NamedProfiles()) {
    const absl::StatusOr<Profile> by_name = ParseProfile(named.name);
    ASSERT_TRUE(by_name.ok()) << by_name.status();
    EXPECT_EQ(FormatProfile(*by_name), named.parameters);
    EXPECT_EQ(*ParseProfile(named.parameters), *by_name);
    EXPECT_LE(by_name->min_bytes, by_name->max_bytes);
  }
}

// A name never changes its meaning: these lines are only ever added to.
TEST(Profile, NamesKeepTheirMeaning) {
  EXPECT_EQ(*ParseProfile("fastcdc2020-8k"),
            (Profile{Algorithm::kFastCdc2020, 2048, 8192, 32768, 1}));
  EXPECT_EQ(*ParseProfile("fastcdc2020-4k"),
            (Profile{Algorithm::kFastCdc2020, 1024, 4096, 16384, 1}));
  EXPECT_EQ(*ParseProfile("fastcdc2020-64k"),
            (Profile{Algorithm::kFastCdc2020, 16384, 65536, 262144, 1}));
  EXPECT_EQ(*ParseProfile("fastcdc-8k"), (Profile{Algorithm::kFastCdc, 2048, 8192, 32768, 2}));
  EXPECT_EQ(*ParseProfile("fastcdc-16k"), (Profile{Algorithm::kFastCdc, 4096, 16384, 65536, 2}));
  EXPECT_EQ(*ParseProfile("rabin-8k"), (Profile{Algorithm::kRabin, 2048, 8192, 32768}));
  EXPECT_EQ(*ParseProfile("crc-8k"), *ParseProfile("crc:bits=13,min=1024,max=32768"));
  EXPECT_EQ(*ParseProfile("mincdc-8k"), *ParseProfile("mincdc:max=12288,min=4096"));
  EXPECT_EQ(*ParseProfile("gear-8k"), (Profile{Algorithm::kGear, 4096, 4096, 32768}));
  EXPECT_EQ(*ParseProfile("maxcdc-8k"), (Profile{Algorithm::kMaxCdc, 4096, 0, 12288}));
}

// docs/adr/0007.
TEST(Profile, TheDefaultIsMinCdc) {
  EXPECT_EQ(*ParseProfile(kDefaultProfileName), (Profile{Algorithm::kMinCdc, 4096, 0, 12288}));
}

TEST(Profile, EveryChunkIsBetweenMinAndMax) {
  EXPECT_EQ(ParseProfile("fixed:size=100")->min_bytes, 100u);
  EXPECT_EQ(ParseProfile("fixed:size=100")->max_bytes, 100u);
  EXPECT_EQ(ParseProfile("ram:window=100,max=300")->min_bytes, 100u);
  EXPECT_EQ(ParseProfile("maxp:window=100,max=201")->min_bytes, 100u);
}

TEST(Profile, ReadsParametersInAnyOrder) {
  EXPECT_EQ(*ParseProfile("fastcdc2020:level=1,max=16384,min=512,avg=2048"),
            *ParseProfile("fastcdc2020:min=512,avg=2048,max=16384,level=1"));
  EXPECT_EQ(*ParseProfile("fastcdc:min=65,avg=256,max=257,level=0"),
            (Profile{Algorithm::kFastCdc, 65, 256, 257, 0}));
}

TEST(Profile, FormatRoundTripsAtTheEdges) {
  for (const std::string_view text : {"fastcdc2020:min=64,avg=1024,max=1024,level=0",
                                      "fastcdc:min=1048576,avg=1048576,max=4194304,level=0"}) {
    EXPECT_EQ(FormatProfile(*ParseProfile(text)), text);
  }
}

TEST(Profile, ErrorsNameTheKeyAndItsRange) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("named profiles are fastcdc2020-4k"));
  EXPECT_THAT(ErrorOf("fastcdc2020-7k"), HasSubstr("no such name"));
  EXPECT_THAT(ErrorOf("robin:min=1"), HasSubstr("unknown algorithm; there are fixed, rabin,"));
  EXPECT_THAT(ErrorOf("fastcdc:"), HasSubstr("is not key=value"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=256,level=0,"), HasSubstr("is not key=value"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=256"), HasSubstr("'level' is missing"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=256,seed=0"), HasSubstr("unknown key 'seed'"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,min=64,avg=256,max=256"), HasSubstr("'min' is given twice"));
  for (const std::string_view value : {"", "-1", "+1", " 1", "0x40", "1e3", "9999999999"}) {
    EXPECT_THAT(ErrorOf(Cat("fastcdc:avg=256,max=256,level=0,min=", value)),
                AllOf(HasSubstr("key 'min'"), HasSubstr("not a decimal number")));
  }
  EXPECT_THAT(ErrorOf("fastcdc:min=63,avg=256,max=256,level=0"),
              AllOf(HasSubstr("min=63 is out of range 64..256"), HasSubstr("hash window")));
  EXPECT_THAT(ErrorOf("fastcdc:min=257,avg=256,max=256,level=0"), HasSubstr("min=257 is out of"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=300,max=400,level=0"),
              HasSubstr("not a power of two; the nearest are 256 and 512"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=128,max=400,level=0"),
              HasSubstr("avg=128 is out of range 256..1048576"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=0,max=400,level=0"), HasSubstr("avg=0 is out of range"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=255,level=0"),
              HasSubstr("max=255 is out of range 256..4194304"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=999999999,level=0"), HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf("fastcdc:min=64,avg=256,max=256,level=4"),
              HasSubstr("level=4 is out of range 0..3"));
  EXPECT_THAT(ErrorOf("fastcdc2020:min=65,avg=1024,max=2048,level=0"), HasSubstr("min=65 is odd"));
  EXPECT_THAT(ErrorOf("fastcdc2020:min=64,avg=1024,max=2049,level=0"),
              HasSubstr("max=2049 is odd"));
  EXPECT_THAT(ErrorOf("fastcdc2020:min=64,avg=2048,max=4096,level=2"),
              AllOf(HasSubstr("level=2 is out of range for avg=2048"), HasSubstr("here it is 9")));
}

TEST(Profile, ErrorsOfTheOtherAlgorithms) {
  EXPECT_THAT(ErrorOf("fixed:size=63"), HasSubstr("size=63 is out of range 64..4194304"));
  EXPECT_THAT(ErrorOf("rabin:min=64,avg=300,max=400"), HasSubstr("not a power of two"));
  EXPECT_THAT(ErrorOf("rabin:min=64,avg=256,max=400,level=1"),
              HasSubstr("unknown key 'level'; the keys of rabin are min, avg, max"));
  EXPECT_THAT(ErrorOf("tttd:min=47,avg=256,max=400"), HasSubstr("min=47 is out of range 64..256"));
  EXPECT_THAT(ErrorOf("crc:min=255,bits=13,max=400"), HasSubstr("min=255 is out of range 256.."));
  EXPECT_THAT(ErrorOf("crc:min=256,bits=5,max=400"), HasSubstr("bits=5 is out of range 6..22"));
  EXPECT_THAT(ErrorOf("crc:min=256,bits=13,max=255"), HasSubstr("max=255 is out of range 256.."));
  for (const std::string_view name : {"ae-max", "ae-min", "ram"}) {
    EXPECT_THAT(ErrorOf(Cat(name, ":window=63,max=400")), HasSubstr("window=63 is out of range"));
    EXPECT_THAT(ErrorOf(Cat(name, ":window=64,max=64")), HasSubstr("more than the window"));
  }
  EXPECT_THAT(ErrorOf("maxp:window=64,max=128"), HasSubstr("more than twice the window"));
  EXPECT_THAT(ErrorOf("maxp-local:window=64,max=128"), HasSubstr("more than twice the window"));
  EXPECT_THAT(ErrorOf("seqcdc:mode=up,length=5,trigger=50,skip=256,min=4096,max=16384"),
              HasSubstr("'up' is none of increasing, decreasing"));
  EXPECT_THAT(ErrorOf("seqcdc:mode=increasing,length=0,trigger=50,skip=256,min=4096,max=16384"),
              HasSubstr("length=0 is out of range 1..255"));
  EXPECT_THAT(ErrorOf("seqcdc:mode=increasing,length=5,trigger=0,skip=256,min=4096,max=16384"),
              HasSubstr("trigger=0 is out of range"));
  EXPECT_THAT(ErrorOf("mincdc:min=64,max=63"), HasSubstr("max=63 is out of range 64.."));
  EXPECT_THAT(ErrorOf("maxcdc:min=64,max=63"), HasSubstr("max=63 is out of range 64.."));
  EXPECT_THAT(ErrorOf("maxcdc:min=63,max=64"), HasSubstr("min=63 is out of range 64.."));
  EXPECT_THAT(ErrorOf("gear:min=64,avg=300,max=400"), HasSubstr("not a power of two"));
  EXPECT_THAT(ErrorOf("gear:min=64,avg=131072,max=131072"),
              AllOf(HasSubstr("out of range 256..65536"), HasSubstr("gear's hash has 16 bits")));
}

TEST(Profile, HostileTextIsCutAndEscaped) {
  EXPECT_LT(ErrorOf(std::string(1 << 20, 'x')).size(), 1000u);
  EXPECT_LT(ErrorOf("fastcdc:" + std::string(1 << 20, ',')).size(), 1000u);
  EXPECT_THAT(ErrorOf("a\n\x1b[31m"), HasSubstr("a\\n\\x1b[31m"));
}

}  // namespace
}  // namespace kerf
