#include "server/worker/buffer_pool.h"

#include <gtest/gtest.h>

#include <utility>

namespace kerf {
namespace {

TEST(BufferPool, KeepsAFewOfItsSize) {
  BufferPool pool(64, 1);
  BufferPool::Buffer first = pool.Take(64);
  BufferPool::Buffer second = pool.Take(64);
  const std::uint8_t* const kept = first.get();
  pool.Give(std::move(first), 64);
  pool.Give(std::move(second), 64);
  EXPECT_EQ(pool.Take(64).get(), kept);
  pool.Give(pool.Take(100), 100);
}

}  // namespace
}  // namespace kerf
