#include "server/net/shared_memories.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "base/shared_memory.h"
#include "base/unique_fd.h"

namespace kerf {
namespace {

ForeignMemory Memory() {
  const auto own = SharedMemory::Make(kMinSharedBytes);
  EXPECT_TRUE(own.ok()) << own.status();
  return *ForeignMemory::Take(UniqueFd(fcntl(own->fd(), F_DUPFD_CLOEXEC, 0)));
}

std::string TextOf(const SharedMemories::Token& token) { return {token.begin(), token.end()}; }

TEST(SharedMemoriesTest, GivesEachByItsToken) {
  SharedMemories memories(8);
  const auto one = memories.Add(Memory());
  const auto other = memories.Add(Memory());
  ASSERT_TRUE(one.has_value() && other.has_value());
  const auto first = memories.Find(TextOf(*one));
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, memories.Find(TextOf(*other)));
  memories.Remove(*one);
  EXPECT_EQ(memories.Find(TextOf(*one)), nullptr);
  EXPECT_NE(memories.Find(TextOf(*other)), nullptr);
  // Who has it keeps it.
  EXPECT_EQ(first->size_bytes(), kMinSharedBytes);
}

TEST(SharedMemoriesTest, KnowsNoOtherToken) {
  SharedMemories memories(8);
  const std::string token = TextOf(*memories.Add(Memory()));
  for (std::size_t index = 0; index < token.size(); ++index) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = token;
      other[index] = static_cast<char>(other[index] ^ (1 << bit));
      EXPECT_EQ(memories.Find(other), nullptr) << index;
    }
  }
  EXPECT_EQ(memories.Find(""), nullptr);
  EXPECT_EQ(memories.Find(token.substr(1)), nullptr);
  EXPECT_EQ(memories.Find(token + "x"), nullptr);
}

// The bytes behind the number are nobody's to guess.
TEST(SharedMemoriesTest, TokensAreDrawn) {
  SharedMemories memories(64);
  std::set<std::string> secrets;
  for (int count = 0; count < 64; ++count) {
    secrets.insert(TextOf(*memories.Add(Memory())).substr(sizeof(std::uint64_t)));
  }
  EXPECT_EQ(secrets.size(), 64u);
}

TEST(SharedMemoriesTest, HasSoManyAtMost) {
  SharedMemories memories(1);
  const auto one = memories.Add(Memory());
  EXPECT_FALSE(memories.Add(Memory()).has_value());
  memories.Remove(*one);
  EXPECT_TRUE(memories.Add(Memory()).has_value());
}

}  // namespace
}  // namespace kerf
