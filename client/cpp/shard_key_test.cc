#include "client/cpp/shard_key.h"

#include <gtest/gtest.h>

namespace kerf::client {
namespace {

// Of docs/spec/routing.md; computed with xxHash's own library.
TEST(ShardKeyTest, IsThatOfTheSpecification) {
  EXPECT_EQ(ShardKey("home", "lane 0"), "fc6e2038dd48d4c2");
  EXPECT_EQ(ShardKey("home", "metadata"), "2effe7fc0cf5c6a6");
  EXPECT_EQ(ShardKey("", ""), "c44bdff4074eecdb");
}

}  // namespace
}  // namespace kerf::client
