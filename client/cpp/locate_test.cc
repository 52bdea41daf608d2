#include "client/cpp/locate.h"

#include <gtest/gtest.h>

#include <string>

namespace kerf::client {
namespace {

TEST(IsReachableAs, AnAddressOfTheNetworkIsOneForAll) {
  EXPECT_TRUE(IsReachableAs("front.example:7461", "10.1.2.3:7461"));
  EXPECT_TRUE(IsReachableAs("unix:/run/front.sock", "worker-0.example:7461"));
  EXPECT_TRUE(IsReachableAs("127.0.0.1:7461", "10.1.2.3:7461"));
}

// Another machine's socket or loopback address is somebody else's here.
TEST(IsReachableAs, WhatIsOfOneMachineIsForThatMachineOnly) {
  EXPECT_TRUE(IsReachableAs("unix:/run/front.sock", "unix:/run/worker.sock"));
  EXPECT_TRUE(IsReachableAs("unix:/run/front.sock", "127.0.0.1:7461"));
  EXPECT_TRUE(IsReachableAs("localhost:7461", "127.0.0.1:7462"));
  EXPECT_TRUE(IsReachableAs("[::1]:7461", "localhost:7462"));
  EXPECT_FALSE(IsReachableAs("front.example:7461", "unix:/run/worker.sock"));
  EXPECT_FALSE(IsReachableAs("127.0.0.1:7461", "unix:/run/worker.sock"));
  EXPECT_FALSE(IsReachableAs("front.example:7461", "127.0.0.1:7461"));
  EXPECT_FALSE(IsReachableAs("10.1.2.3:7461", "localhost:7461"));
  EXPECT_FALSE(IsReachableAs("10.1.2.3:7461", "[::1]:7461"));
  EXPECT_FALSE(IsReachableAs("10.1.2.3:7461", "0.0.0.0:7461"));
  EXPECT_FALSE(IsReachableAs("10.1.2.3:7461", "[::]:7461"));
}

TEST(IsReachableAs, WhatIsNoOneAddressIsNone) {
  for (const char* const worker : {"", "worker-0", "a:1,b:1", "unix:", "a:99999"}) {
    EXPECT_FALSE(IsReachableAs("front.example:7461", worker)) << worker;
    EXPECT_FALSE(IsReachableAs("unix:/run/front.sock", worker)) << worker;
  }
  EXPECT_FALSE(IsReachableAs("front.example:7461", std::string(600, 'a') + ":7461"));
}

}  // namespace
}  // namespace kerf::client
