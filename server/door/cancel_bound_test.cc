#include "server/door/cancel_bound.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <chrono>
#include <cstring>
#include <string>

#include "server/door/client_address.h"

namespace kerf::door {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

sockaddr_storage Address(const std::string& text, std::uint16_t port) {
  sockaddr_storage storage{};
  sockaddr_in ipv4{};
  if (inet_pton(AF_INET, text.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(port);
    std::memcpy(&storage, &ipv4, sizeof ipv4);
    return storage;
  }
  sockaddr_in6 ipv6{};
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &ipv6.sin6_addr), 1);
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(port);
  std::memcpy(&storage, &ipv6, sizeof ipv6);
  return storage;
}

ClientAddress Client(const std::string& text, std::uint16_t port = 7) {
  return ClientAddressOf(Address(text, port), -1);
}

TEST(ClientAddress, IsWrittenAsGrpcWritesIt) {
  EXPECT_EQ(Client("192.0.2.1").text, "ipv4:192.0.2.1:7");
  EXPECT_EQ(Client("2001:db8::1").text, "ipv6:[2001:db8::1]:7");
  EXPECT_EQ(Client("::ffff:192.0.2.1").text, "ipv4:192.0.2.1:7");
}

TEST(ClientAddress, IsOneForWhateverOneClientMayHave) {
  EXPECT_EQ(Client("192.0.2.1", 7).key, Client("192.0.2.1", 8).key);
  EXPECT_EQ(Client("192.0.2.1").key, Client("::ffff:192.0.2.1").key);
  EXPECT_NE(Client("192.0.2.1").key, Client("192.0.2.2").key);
  EXPECT_EQ(Client("2001:db8::1").key, Client("2001:db8::ffff:1:2:3").key);
  EXPECT_NE(Client("2001:db8::1").key, Client("2001:db8:0:1::1").key);
}

TEST(CancelBound, ABurstIsTakenAndComesBackWithTime) {
  CancelBound bound({.burst = 3, .per_second = 2});
  const auto address = Client("192.0.2.1").key;
  CancelBound::Time now = CancelBound::Time() + seconds(100);
  EXPECT_TRUE(bound.Take(address, 1, now));
  EXPECT_TRUE(bound.Take(address, 2, now));
  EXPECT_TRUE(bound.Has(address, now));
  EXPECT_FALSE(bound.Take(address, 1, now));
  EXPECT_FALSE(bound.Has(address, now));
  // Another one's are its own.
  EXPECT_TRUE(bound.Take(Client("192.0.2.2").key, 1, now));
  now += milliseconds(499);
  EXPECT_FALSE(bound.Has(address, now));
  now += milliseconds(2);
  EXPECT_TRUE(bound.Has(address, now));
  now += seconds(100);
  EXPECT_TRUE(bound.Take(address, 3, now));
  EXPECT_FALSE(bound.Take(address, 1, now));
}

// However much it has cancelled.
TEST(CancelBound, NobodyIsKeptOutForLongerThanABucketTakes) {
  CancelBound bound({.burst = 10, .per_second = 2});
  const auto address = Client("192.0.2.1").key;
  const CancelBound::Time now = CancelBound::Time() + seconds(100);
  EXPECT_FALSE(bound.Take(address, 1'000'000, now));
  EXPECT_FALSE(bound.Has(address, now + milliseconds(4'900)));
  EXPECT_TRUE(bound.Has(address, now + milliseconds(5'100)));
}

TEST(CancelBound, RemembersSoManyAddressesAndForgetsThoseThatSayNothing) {
  CancelBound bound({.burst = 10, .per_second = 1, .max_addresses = 100});
  CancelBound::Time now = CancelBound::Time() + seconds(100);
  const auto bad = Client("192.0.2.1").key;
  EXPECT_FALSE(bound.Take(bad, 30, now));
  for (int count = 0; count < 1'000; ++count) {
    now += milliseconds(15);
    bound.Take(
        Client("198.51." + std::to_string(count / 250) + "." + std::to_string(count % 250)).key, 1,
        now);
    EXPECT_LE(bound.address_count(), 100u);
    const bool is_kept_out = now < CancelBound::Time() + seconds(108);
    EXPECT_TRUE(!is_kept_out || !bound.Has(bad, now)) << count;
  }
}

}  // namespace
}  // namespace kerf::door
