#include "kernels/rapid/upload_profile.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace kerf {
namespace {

std::string WhyNot(std::string_view text) {
  const absl::StatusOr<UploadProfile> profile = ParseUploadProfile(text);
  return profile.ok() ? "" : std::string(profile.status().message());
}

TEST(UploadProfileTest, ACriterionStandsBehindThePlus) {
  const std::string rule = "fastcdc:min=2048,avg=8192,max=32768,level=2";
  for (const std::string& text : {std::string("fastcdc-8k"), rule}) {
    EXPECT_EQ(*ParseUploadProfile(text), UploadProfile(*ParseProfile(rule)));
    const UploadProfile with = *ParseUploadProfile(text + "+ff-mt");
    EXPECT_EQ(with, UploadProfile(*ParseProfile(rule), AcceptanceCriterion::kFfMt));
    EXPECT_EQ(FormatUploadProfile(with), rule + "+ff-mt");
  }
  EXPECT_EQ(FormatUploadProfile(*ParseProfile(rule)), rule);
}

TEST(UploadProfileTest, TheCanonicalTextIsReadBack) {
  for (const NamedProfile& named : NamedProfiles()) {
    for (const std::string_view criterion : CriterionNames()) {
      const auto profile = ParseUploadProfile(Cat(named.name, "+", criterion));
      if (!profile.ok()) continue;
      const std::string text = FormatUploadProfile(*profile);
      EXPECT_EQ(text, Cat(named.parameters, "+", criterion));
      EXPECT_EQ(*ParseUploadProfile(text), *profile);
    }
  }
}

TEST(UploadProfileTest, WhatMakesNoSenseIsRefused) {
  for (const char* text :
       {"", "+ff", "none+ff", "fastcdc-8k+", "fastcdc-8k+ff+ff", "fastcdc-8k+FF", "fastcdc-8k +ff",
        "fastcdc-8k+ff-rwt-fpt", "fastcdc-8k+exact", "fixed-8k+ff", "fixed-8k+ff-mt",
        "ram-8k+ff-rwt", "mincdc-8k+ff-rwt", "maxcdc-8k+ff-rwt"}) {
    EXPECT_NE(WhyNot(text), "") << text;
  }
  for (const char* text : {"ram-8k+ff", "mincdc-8k+ff-mt", "tttd-8k+ff-rwt", "seqcdc-8k+ff-rwt"}) {
    EXPECT_EQ(WhyNot(text), "") << text;
  }
  EXPECT_NE(WhyNot("mincdc-8k+ff-rwt").find("costs as much as the scan"), std::string::npos);
  EXPECT_NE(WhyNot("rabin-8k+fast").find("none of ff, ff-rwt, ff-mt"), std::string::npos);
  EXPECT_LT(WhyNot("rabin-8k+" + std::string(1'000'000, '\x01')).size(), 1000u);
}

// Who has no history cuts by the rule alone, and says so.
TEST(UploadProfileTest, AProfileAloneHasNoCriterion) {
  const auto profile = ParseProfile("fastcdc-8k+ff");
  ASSERT_FALSE(profile.ok());
  EXPECT_NE(profile.status().message().find("only an upload"), std::string::npos);
}

}  // namespace
}  // namespace kerf
