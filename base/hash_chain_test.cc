#include "base/hash_chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr char kMembers[] = "\"time\":\"2026-11-25T20:43:47.123Z\",\"event\":\"call\",\"n\":1";

std::string WithoutEnd(std::string line) {
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return line;
}

// By sha256sum, of the bytes that docs/spec/audit.md names.
TEST(HashChainTest, LinesAreThoseOfTheSpecification) {
  ChainPoint point;
  EXPECT_EQ(SealLine("\"a\":1", &point),
            "{\"seq\":1,\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000"
            "\",\"a\":1,\"hash\":"
            "\"79d849221fb23cd49e2bc95431e155e121723309f579af3db1cc2677c5ec6407\"}\n");
  EXPECT_EQ(
      SealLine("\"a\":2", &point),
      "{\"seq\":2,\"prev\":\"79d849221fb23cd49e2bc95431e155e121723309f579af3db1cc2677c5ec6407\","
      "\"a\":2,\"hash\":\"10992824df019484fef43c4b6e465eba8a5e1a19a063f10fc5b0e52a2ec1269a\"}\n");
  EXPECT_EQ(point.seq, 2u);
  EXPECT_EQ(ChainHashOf(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(HashChainTest, ALineReadsAsItWasWritten) {
  ChainPoint point{41, ChainHashOf("before")};
  const ChainPoint before = point;
  const std::string text = WithoutEnd(SealLine(kMembers, &point));
  const auto line = ReadChainLine(text);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->is_intact);
  EXPECT_EQ(line->point(), point);
  EXPECT_EQ(line->prev, before.hash);
  EXPECT_EQ(line->members, kMembers);
}

TEST(HashChainTest, NoByteOfALineCanBeAnother) {
  ChainPoint point{7, ChainHashOf("before")};
  const std::string text = WithoutEnd(SealLine(kMembers, &point));
  for (std::size_t place = 0; place < text.size(); ++place) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[place] = static_cast<char>(byte);
      const auto line = ReadChainLine(changed);
      EXPECT_EQ(line.has_value() && line->is_intact, changed == text) << changed;
    }
  }
}

TEST(HashChainTest, APartOfALineIsNone) {
  ChainPoint point;
  const std::string text = WithoutEnd(SealLine(kMembers, &point));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ReadChainLine(std::string_view(text).substr(0, size)).has_value()) << size;
    EXPECT_FALSE(ReadChainLine(std::string_view(text).substr(text.size() - size)).has_value());
  }
}

TEST(HashChainTest, ATornTailReadsAsItWasWritten) {
  const TornTail tail{123, ChainHashOf("tail")};
  const std::string members = Cat("\"time\":\"t\",", TornTailMembers(tail));
  EXPECT_EQ(ReadTornTail(members), tail);
  EXPECT_FALSE(BeginsChainFile(members));
  EXPECT_EQ(ReadTornTail(kMembers), std::nullopt);
  // Words of a peer are none.
  EXPECT_EQ(
      ReadTornTail("\"time\":\"t\",\"event\":\"call\",\"agent\":\",\\\"event\\\":\\\"torn\\\"\""),
      std::nullopt);
  EXPECT_TRUE(BeginsChainFile("\"time\":\"t\",\"event\":\"file\",\"before\":\"\""));
}

}  // namespace
}  // namespace kerf
