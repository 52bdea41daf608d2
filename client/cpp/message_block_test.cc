#include "client/cpp/message_block.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/page_bytes.h"

namespace kerf::client {
namespace {

// Of any size: of small ones malloc gives what lies anywhere.
TEST(MessageBlockTest, BeginsAtAPage) {
  constexpr std::size_t kBlocks = 8;
  for (const std::size_t block_bytes :
       {std::size_t{8} << 10, (std::size_t{64} << 10) + 1, std::size_t{512} << 10}) {
    BlockPool pool(block_bytes, kBlocks);
    std::vector<BlockRef> blocks;
    for (std::size_t index = 0; index < kBlocks; ++index) {
      const BlockRef block = blocks.emplace_back(pool.Acquire());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % kPageBytes, 0u) << block_bytes;
      EXPECT_EQ(block->free_bytes(), block_bytes);
    }
    EXPECT_EQ(pool.TryAcquire(), nullptr);
    // One that comes back is given again.
    const std::uint8_t* const data = blocks.back()->data();
    blocks.back()->Grow(1);
    blocks.pop_back();
    const BlockRef again = pool.Acquire();
    EXPECT_EQ(again->data(), data);
    EXPECT_EQ(again->size_bytes(), 0u);
  }
}

}  // namespace
}  // namespace kerf::client
