#include "server/door/slices.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf::door {
namespace {

std::span<const std::uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string Text(SliceQueue& queue) {
  std::array<iovec, 4096> vectors;
  std::string text;
  for (const iovec& vector : queue.Front(vectors)) {
    text.append(static_cast<const char*>(vector.iov_base), vector.iov_len);
  }
  return text;
}

Slice Read(BlockPool& pool, std::string_view text) {
  const BlockRef block = pool.New(BlockPool::kReadBytes);
  std::memcpy(block->bytes.get(), text.data(), text.size());
  block->used_bytes = text.size();
  return {.block = block, .at = 0, .size_bytes = text.size()};
}

TEST(Slices, WhatIsSharedIsKeptByTheLastWhoHasIt) {
  BlockPool pool;
  {
    SliceQueue from(&pool);
    SliceQueue to(&pool);
    from.Append(Read(pool, "0123456789"));
    from.MoveTo(to, 4);
    EXPECT_EQ(Text(from), "456789");
    EXPECT_EQ(Text(to), "0123");
    from.Clear();
    EXPECT_EQ(pool.used_bytes(), BlockPool::kReadBytes);
    to.DropFront(4);
    EXPECT_EQ(pool.used_bytes(), 0u);
  }
}

TEST(Slices, PiecesThatFollowEachOtherInABlockAreOne) {
  BlockPool pool;
  SliceQueue queue(&pool);
  const Slice whole = Read(pool, "abcdef");
  queue.Append({.block = whole.block, .at = 0, .size_bytes = 2});
  queue.Append({.block = whole.block, .at = 2, .size_bytes = 4});
  std::array<iovec, 4> vectors;
  EXPECT_EQ(queue.Front(vectors).size(), 1u);
  EXPECT_EQ(Text(queue), "abcdef");
}

// Bytes that are copied one by one share a block.
TEST(Slices, CopiesAreHeldInLittleMoreThanTheyTake) {
  BlockPool pool;
  SliceQueue queue(&pool);
  for (int count = 0; count < 10'000; ++count) queue.AppendCopy(Bytes("x"));
  EXPECT_EQ(queue.size_bytes(), 10'000u);
  EXPECT_LE(pool.used_bytes(), 10'000 + BlockPool::kCopyBytes);
}

TEST(Slices, BehaveAsTextDoes) {
  Random random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    BlockPool pool;
    SliceQueue first(&pool);
    SliceQueue second(&pool);
    std::string first_text;
    std::string second_text;
    for (int step = 0; step < 200; ++step) {
      std::string bytes(random.Below(random.Below(8) == 0 ? 9'000 : 40), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.Next());
      switch (random.Below(5)) {
        case 0:
          first.AppendCopy(Bytes(bytes));
          first_text += bytes;
          break;
        case 1:
          first.Append(Read(pool, bytes));
          first_text += bytes;
          break;
        case 2: {
          const std::size_t size = random.Below(first_text.size() + 1);
          first.MoveTo(second, size);
          second_text += first_text.substr(0, size);
          first_text.erase(0, size);
          break;
        }
        case 3: {
          const std::size_t size = random.Below(second_text.size() + 1);
          second.DropFront(size);
          second_text.erase(0, size);
          break;
        }
        default:
          second.AppendCopy(Bytes(bytes));
          second_text += bytes;
          break;
      }
      ASSERT_EQ(first.size_bytes(), first_text.size());
      ASSERT_EQ(second.size_bytes(), second_text.size());
      ASSERT_TRUE(Text(first) == first_text);
      ASSERT_TRUE(Text(second) == second_text);
    }
    first.Clear();
    second.Clear();
    ASSERT_EQ(pool.used_bytes(), 0u);
  }
}

}  // namespace
}  // namespace kerf::door
