#include "server/routing/worker_address.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kerf::routing {
namespace {

TEST(WorkerAddressTest, OneWorkerIsNamedByItsAddress) {
  for (const auto& [text, host] :
       std::vector<std::pair<const char*, const char*>>{{"unix:/run/kerfd.sock", ""},
                                                        {"worker-0:7461", "worker-0"},
                                                        {"127.0.0.1:1", "127.0.0.1"},
                                                        {"[::1]:65535", "::1"}}) {
    const auto address = ParseWorkerAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_FALSE(address->is_group);
    EXPECT_EQ(EndpointOf(*address), (Endpoint{text, true, host}));
  }
  EXPECT_EQ(GrpcTargetOf({"unix:/a", true}), "unix:/a");
  EXPECT_EQ(GrpcTargetOf({"[::1]:7", true}), "dns:///[::1]:7");
}

TEST(WorkerAddressTest, AGroupHasTheAddressesOfItsName) {
  const auto address = ParseWorkerAddress("dns:kerf-worker.kerf.svc:7461");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_TRUE(address->is_group);
  EXPECT_EQ(address->host, "kerf-worker.kerf.svc");
  EXPECT_EQ(address->port, 7461);
  EXPECT_EQ(EndpointOf(*address, "10.1.2.3"),
            (Endpoint{"10.1.2.3:7461", false, "kerf-worker.kerf.svc"}));
  EXPECT_EQ(EndpointOf(*address, "fd00::7"),
            (Endpoint{"[fd00::7]:7461", false, "kerf-worker.kerf.svc"}));
  EXPECT_EQ(ParseWorkerAddress("dns:[::1]:5")->host, "::1");
}

TEST(WorkerAddressTest, WhatIsNoAddressIsRefusedWithTheForm) {
  for (const char* text :
       {"", "unix:", "worker", "worker:", ":7461", "worker:0", "worker:65536", "worker:7x",
        "::1:7461", "[worker]:7461", "[::1]", "dns:", "dns:worker", "dns::7461", "dns:unix:/a"}) {
    const auto address = ParseWorkerAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_TRUE(absl::IsInvalidArgument(address.status()));
    EXPECT_NE(std::string(address.status().message()).find("dns:HOST:PORT"), std::string::npos);
  }
}

}  // namespace
}  // namespace kerf::routing
