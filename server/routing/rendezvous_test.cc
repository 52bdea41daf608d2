#include "server/routing/rendezvous.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"

namespace kerf::routing {
namespace {

struct Golden {
  std::string_view shard_key;
  std::string_view member;
  std::uint64_t score;
};

// Of docs/spec/routing.md; computed with xxHash's own library.
constexpr Golden kGolden[] = {
    {"0", "worker-0", 0x307a2738ff964d7eu},
    {"0", "worker-1", 0x994af8fcf8dad2d8u},
    {"0", "worker-2", 0x9bed31836159f315u},
    {"0", "127.0.0.1:7461", 0xa03a45b8fa0d06e3u},
    {"0", "unix:/run/kerfd.sock", 0x73cab339b059da5bu},
    {"000000000000002a", "worker-0", 0x9f8fe816d8070618u},
    {"000000000000002a", "worker-1", 0xe4b6b0266b1b08aau},
    {"000000000000002a", "worker-2", 0x0080c3af847408cfu},
    {"000000000000002a", "127.0.0.1:7461", 0xdbce80fae6ac4febu},
    {"000000000000002a", "unix:/run/kerfd.sock", 0x0db69d49072c6695u},
    {"home/etc/passwd", "worker-0", 0x885c48af208fb588u},
    {"home/etc/passwd", "worker-1", 0x1d6c1a785f2da5a1u},
    {"home/etc/passwd", "worker-2", 0x78813c87b6375a41u},
    {"home/etc/passwd", "127.0.0.1:7461", 0xcc01c5b2cfbeba65u},
    {"home/etc/passwd", "unix:/run/kerfd.sock", 0xe2c397e48f9b0b60u},
};

std::vector<std::string> Workers(std::size_t count) {
  std::vector<std::string> names;
  names.reserve(count);
  for (std::size_t index = 0; index < count; ++index) names.push_back(Cat("worker-", index));
  return names;
}

std::vector<std::string> RandomKeys(std::size_t count) {
  Random random(TestSeed());
  std::vector<std::string> keys;
  keys.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    keys.push_back(Cat(absl::Hex(random.Next(), absl::kZeroPad16)));
  }
  return keys;
}

std::string PickName(std::string_view key, const std::vector<std::string>& members) {
  const auto index = PickMember(key, members);
  return index.has_value() ? members[*index] : "";
}

TEST(RendezvousTest, ScoresAreThoseOfTheSpecification) {
  for (const Golden& golden : kGolden) {
    EXPECT_EQ(RendezvousScore(golden.shard_key, golden.member), golden.score)
        << golden.shard_key << " " << golden.member;
  }
}

TEST(RendezvousTest, PicksAreThoseOfTheSpecification) {
  EXPECT_EQ(PickName("0", Workers(3)), "worker-2");
  EXPECT_EQ(PickName("000000000000002a", Workers(3)), "worker-1");
  EXPECT_EQ(PickName("home/etc/passwd", Workers(3)), "worker-0");
  EXPECT_FALSE(PickMember("0", {}).has_value());
  EXPECT_EQ(PickName("", Workers(1)), "worker-0");
}

TEST(RendezvousTest, TheOrderOfTheMembersMakesNoDifference) {
  const std::vector<std::string> members = Workers(9);
  const std::vector<std::string> reversed(members.rbegin(), members.rend());
  for (const std::string& key : RandomKeys(1000)) {
    EXPECT_EQ(PickName(key, members), PickName(key, reversed));
  }
  // Two of one name: the first, so that it is always the same.
  EXPECT_EQ(PickMember("0", std::vector<std::string>{"twin", "twin"}), 0u);
}

// The property that routing is there for: a worker that is lost takes with it what it had, one Nth
// of the keys, and nothing else moves; one that comes takes one (N+1)th, and nothing moves but to
// it.
TEST(RendezvousTest, LosingOrAddingAMemberMovesItsKeysOnly) {
  constexpr std::size_t kKeyCount = 40'000;
  const std::vector<std::string> keys = RandomKeys(kKeyCount);
  for (const std::size_t member_count : {2u, 3u, 5u, 10u, 50u}) {
    const std::vector<std::string> all = Workers(member_count);
    const std::string& lost = all[member_count / 2];
    std::vector<std::string> rest = all;
    std::erase(rest, lost);
    std::size_t moved_count = 0;
    for (const std::string& key : keys) {
      const std::string before = PickName(key, all);
      const std::string after = PickName(key, rest);
      if (before == after) continue;
      ++moved_count;
      // Seen from `rest`, the same is a member that is added: all that moves, moves to it.
      ASSERT_EQ(before, lost) << key;
    }
    const double expected = static_cast<double>(kKeyCount) / static_cast<double>(member_count);
    // Six standard deviations of a binomial: one run in a thousand million would be outside.
    const double tolerance = 6 * std::sqrt(expected * (1 - 1 / static_cast<double>(member_count)));
    EXPECT_NEAR(static_cast<double>(moved_count), expected, tolerance) << member_count;
    RecordProperty(Cat("moved_of_", member_count), Cat(moved_count, " of ", kKeyCount));
  }
}

TEST(RendezvousTest, EveryMemberHasItsShare) {
  constexpr std::size_t kMemberCount = 7;
  constexpr std::size_t kKeyCount = 35'000;
  const std::vector<std::string> members = Workers(kMemberCount);
  std::vector<std::size_t> counts(kMemberCount);
  for (const std::string& key : RandomKeys(kKeyCount)) ++counts[*PickMember(key, members)];
  for (const std::size_t count : counts) {
    EXPECT_NEAR(static_cast<double>(count), 5000.0, 6 * std::sqrt(5000.0));
  }
}

}  // namespace
}  // namespace kerf::routing
