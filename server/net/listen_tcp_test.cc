#include "server/net/listen_tcp.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf {
namespace {

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

bool Connects(const char* host, int port) {
  sockaddr_in ipv4{};
  sockaddr_in6 ipv6{};
  if (inet_pton(AF_INET, host, &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(static_cast<std::uint16_t>(port));
    const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(socket.get(), reinterpret_cast<sockaddr*>(&ipv4), sizeof ipv4) == 0;
  }
  inet_pton(AF_INET6, host, &ipv6.sin6_addr);
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(static_cast<std::uint16_t>(port));
  const UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(socket.get(), reinterpret_cast<sockaddr*>(&ipv6), sizeof ipv6) == 0;
}

bool HasIpv6() { return ListenTcp("[::1]:0").ok(); }

TEST(ListenTcp, PicksAPortAndListensThere) {
  const auto listeners = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(listeners.ok());
  ASSERT_EQ(listeners->sockets.size(), 1u);
  EXPECT_THAT(listeners->address, testing::StartsWith("127.0.0.1:"));
  EXPECT_GT(PortOf(listeners->address), 0);
  EXPECT_TRUE(Connects("127.0.0.1", PortOf(listeners->address)));
}

TEST(ListenTcp, APortThatIsTakenIsSaidToBe) {
  const auto first = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = ListenTcp(first->address);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MessageOf(second.status()),
            Cat("cannot listen on ", first->address, ": the address is in use"));
}

TEST(ListenTcp, AnAddressOfAnotherMachineIsSaidToBe) {
  const auto listeners = ListenTcp("192.0.2.1:0");
  EXPECT_EQ(listeners.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(listeners.status())),
              testing::HasSubstr("Cannot assign requested address"));
}

TEST(ListenTcp, AHostThatNobodyKnowsIsSaidToBe) {
  const auto listeners = ListenTcp("no-such-host.invalid:0");
  EXPECT_EQ(listeners.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ListenTcp, AllAddressesAreThoseOfBothFamilies) {
  for (const char* target : {"0.0.0.0:0", "[::]:0"}) {
    const auto listeners = ListenTcp(target);
    if (!HasIpv6() && std::string(target) == "[::]:0") continue;
    ASSERT_TRUE(listeners.ok()) << MessageOf(listeners.status());
    const int port = PortOf(listeners->address);
    EXPECT_TRUE(Connects("127.0.0.1", port)) << target;
    EXPECT_EQ(Connects("::1", port), HasIpv6()) << target;
  }
}

TEST(ListenTcp, OneFamilyIsOne) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  const auto listeners = ListenTcp("[::1]:0");
  ASSERT_TRUE(listeners.ok());
  EXPECT_TRUE(Connects("::1", PortOf(listeners->address)));
  EXPECT_FALSE(Connects("127.0.0.1", PortOf(listeners->address)));
}

}  // namespace
}  // namespace kerf
