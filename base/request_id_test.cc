#include "base/request_id.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kerf {
namespace {

TEST(RequestIdTest, IsNewEachTimeAndValid) {
  std::set<std::string> seen;
  for (int round = 0; round < 1000; ++round) {
    const std::string id = NewRequestId();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    EXPECT_TRUE(IsRequestId(id));
    EXPECT_TRUE(seen.insert(id).second) << id;
  }
}

TEST(RequestIdTest, TakesNothingThatCouldHarmALog) {
  EXPECT_TRUE(IsRequestId("a"));
  EXPECT_TRUE(IsRequestId("0f-A_z.9"));
  EXPECT_TRUE(IsRequestId(std::string(kMaxRequestIdBytes, 'x')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId(std::string(kMaxRequestIdBytes + 1, 'x')));
  for (int code = 0; code < 256; ++code) {
    const char character = static_cast<char>(code);
    const bool is_good = (character >= '0' && character <= '9') ||
                         (character >= 'a' && character <= 'z') ||
                         (character >= 'A' && character <= 'Z') || character == '.' ||
                         character == '_' || character == '-';
    EXPECT_EQ(IsRequestId(std::string("a") + character), is_good) << code;
  }
}

}  // namespace
}  // namespace kerf
