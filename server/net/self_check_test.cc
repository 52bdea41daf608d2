// A server that listens and answers nobody notices that of itself.
#include "server/net/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/listener/grpc_listener.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kInterval{10};

SelfCheckOptions OptionsFor(const std::vector<std::string>& addresses) {
  return {.addresses = addresses,
          .interval = kInterval,
          .timeout = milliseconds(200),
          .hopeless_after = milliseconds(100)};
}

bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  return condition();
}

std::unique_ptr<GrpcListener> Listen(const std::vector<std::string>& addresses) {
  const TransportLimits limits{.max_message_bytes = 1 << 20,
                               .memory_bytes = 64 << 20,
                               .window_bytes = 1 << 20,
                               .max_streams = 4};
  auto listener = GrpcListener::Start(addresses, limits, [](grpc::ServerBuilder&) {});
  EXPECT_TRUE(listener.ok()) << listener.status();
  return *std::move(listener);
}

// The kernel takes connections, and nobody else does: as gRPC leaves it without descriptors.
class Deaf {
 public:
  Deaf() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), generic, length), 0);
    EXPECT_EQ(listen(listener_.get(), 64), 0);
    EXPECT_EQ(getsockname(listener_.get(), generic, &length), 0);
    address_ = Cat("127.0.0.1:", ntohs(address.sin_port));
  }
  const std::string& address() const { return address_; }

 private:
  const UniqueFd listener_;
  std::string address_;
};

TEST(SelfCheckTest, WhoAnswersIsWellWhateverItsHealth) {
  const auto listener = Listen({"127.0.0.1:0", "127.0.0.1:0"});
  listener->SetServing(false);
  SelfCheck check(OptionsFor(listener->addresses()));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_TRUE(check.readiness().ok()) << check.readiness();
  EXPECT_TRUE(check.liveness().ok()) << check.liveness();
  check.Stop();
  listener->Stop();
}

TEST(SelfCheckTest, WhoListensAndAnswersNobodyIsLost) {
  const auto listener = Listen({"127.0.0.1:0"});
  const Deaf deaf;
  const SelfCheck check(OptionsFor({listener->addresses()[0], deaf.address()}));
  ASSERT_TRUE(WaitUntil([&] { return !check.readiness().ok(); }));
  EXPECT_THAT(std::string(MessageOf(check.readiness())),
              testing::AllOf(HasSubstr(deaf.address()), HasSubstr("no answer in time")));
  EXPECT_TRUE(WaitUntil([&] { return !check.liveness().ok(); }));
  listener->Stop();
}

// Others have all places. A new start would help those who took them, and nobody else.
TEST(SelfCheckTest, WhoRefusesNewClientsIsNotReadyAndLives) {
  const TransportLimits limits{.max_message_bytes = 1 << 20,
                               .memory_bytes = 64 << 20,
                               // Less than the windows of one call.
                               .window_bytes = 1 << 10,
                               .max_streams = 4};
  auto listener = GrpcListener::Start({"127.0.0.1:0"}, limits, [](grpc::ServerBuilder&) {});
  ASSERT_TRUE(listener.ok());
  const SelfCheck check(OptionsFor((*listener)->addresses()));
  ASSERT_TRUE(WaitUntil([&] { return !check.readiness().ok(); }));
  EXPECT_THAT(std::string(MessageOf(check.readiness())), HasSubstr("new clients are refused at"));
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_TRUE(check.liveness().ok()) << check.liveness();
  (*listener)->Stop();
}

// Who comes by way of this machine, as behind a proxy of its, may be refused: that is not for us.
TEST(SelfCheckTest, WhatOthersDoFromLoopbackIsNotItsOwn) {
  const auto listener = Listen({"127.0.0.1:0"});
  const std::string& address = listener->addresses()[0];
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  peer.sin_port =
      htons(static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1))));
  const auto connected = [&] {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
    return fd;
  };
  // No HTTP/2, until nobody is heard any more: a whole second burst of it.
  for (int count = 0; count < 200; ++count) {
    const UniqueFd fd = connected();
    send(fd.get(), "hello\r\n\r\n", 9, MSG_NOSIGNAL);
    char byte = 0;
    while (recv(fd.get(), &byte, 1, 0) > 0) {
    }
  }
  SelfCheck check(OptionsFor(listener->addresses()));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_TRUE(check.readiness().ok()) << check.readiness();
  check.Stop();
  listener->Stop();
}

TEST(SelfCheckTest, WhoEndsOnPurposeIsNotLost) {
  const auto listener = Listen({"127.0.0.1:0"});
  SelfCheck check(OptionsFor(listener->addresses()));
  check.Stop();
  listener->Stop();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(check.readiness().ok()) << check.readiness();
}

TEST(SelfCheckTest, WithoutFileDescriptorsNobodyIsAnsweredUntilThereAreSome) {
  const auto listener = Listen({"127.0.0.1:0"});
  SelfCheck check(OptionsFor(listener->addresses()));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  close(next);
  const rlimit few{static_cast<rlim_t>(next) + 4, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_TRUE(WaitUntil([&] { return !check.readiness().ok(); }));
  EXPECT_THAT(std::string(MessageOf(check.readiness())), HasSubstr("no file descriptors left"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  // The look itself has not taken the last ones, so that the listener lives.
  EXPECT_TRUE(WaitUntil([&] { return check.readiness().ok(); })) << check.readiness();
  check.Stop();
  listener->Stop();
}

}  // namespace
}  // namespace kerf
