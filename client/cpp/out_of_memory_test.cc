#include "client/cpp/out_of_memory.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

TEST(OutOfMemoryTest, WhatIsReturnedIsReturned) {
  EXPECT_TRUE(OrOutOfMemory([] { return absl::OkStatus(); }).ok());
  const absl::Status why = absl::DataLossError("why");
  EXPECT_EQ(OrOutOfMemory([&] { return why; }), why);
  EXPECT_FALSE(IsOutOfMemory(why));
  EXPECT_FALSE(IsOutOfMemory(absl::OkStatus()));
}

TEST(OutOfMemoryTest, WhatIsThrownForWantOfMemoryIsAStatus) {
  EXPECT_TRUE(IsOutOfMemory(OrOutOfMemory([]() -> absl::Status { throw std::bad_alloc(); })));
  EXPECT_TRUE(IsOutOfMemory(OrOutOfMemory([]() -> absl::Status {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  })));
}

TEST(OutOfMemoryTest, ABugIsThrownOn) {
  EXPECT_THROW(
      static_cast<void>(OrOutOfMemory([]() -> absl::Status { throw std::logic_error("bug"); })),
      std::logic_error);
}

TEST(OutOfMemoryTest, IsTriedNoMore) {
  EXPECT_EQ(LossOf(OutOfMemory()), Loss::kFinal);
  const absl::Status known = WithRequestId(OutOfMemory(), "one call");
  EXPECT_TRUE(IsOutOfMemory(known));
  EXPECT_EQ(RequestIdOf(known), "one call");
  EXPECT_EQ(RequestIdOf(OutOfMemory()), "");
}

}  // namespace
}  // namespace kerf::client
