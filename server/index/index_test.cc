#include "server/index/index.h"

#include <gtest/gtest.h>

#include <string>

namespace kerf {
namespace {

TEST(ValidateRepositoryNameTest, TakesWhatTheProtocolAllows) {
  for (const char* name : {"a", "photos", "A-Z.a_z-09", "..", "-"}) {
    EXPECT_TRUE(ValidateRepositoryName(name).ok()) << name;
  }
  EXPECT_TRUE(ValidateRepositoryName(std::string(kMaxRepositoryNameBytes, 'x')).ok());
}

TEST(ValidateRepositoryNameTest, RefusesEveryOtherByte) {
  const std::string allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = {'a', static_cast<char>(byte)};
    EXPECT_EQ(ValidateRepositoryName(name).ok(),
              allowed.find(static_cast<char>(byte)) != std::string::npos)
        << byte;
  }
  EXPECT_FALSE(ValidateRepositoryName("").ok());
  EXPECT_FALSE(ValidateRepositoryName(std::string(kMaxRepositoryNameBytes + 1, 'x')).ok());
}

}  // namespace
}  // namespace kerf
