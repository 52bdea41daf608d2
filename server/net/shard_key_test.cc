#include "server/net/shard_key.h"

#include <gtest/gtest.h>

#include <string>

#include "server/errors/errors.h"

namespace kerf {
namespace {

std::string Named(const std::string& key) {
  const absl::Status status = CheckShardKey(key);
  return status.ok() ? "OK" : ReasonNameOf(status);
}

TEST(ShardKeyRuleTest, IsPrintableAndBounded) {
  for (const std::string& key : {std::string(), std::string("k"), std::string("home/my files/a"),
                                 std::string("!~"), std::string(kMaxShardKeyBytes, 'k')}) {
    EXPECT_EQ(Named(key), "OK") << key;
  }
  for (const std::string& key :
       {std::string(kMaxShardKeyBytes + 1, 'k'), std::string(" "), std::string(" a"),
        std::string("a "), std::string("\x7f"), std::string("\x1f"), std::string("a\0b", 3),
        std::string("gr\xc3\xbc\xc3\x9f")}) {
    EXPECT_EQ(Named(key), "BAD_FIELD") << key;
  }
}

}  // namespace
}  // namespace kerf
