// Those who behave, beside strangers who do not: what tests of strangers begin with.
//
// KERF_STRANGERS_SECONDS is how long each flood takes: 3 by default.
#pragma once

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "kerf/v1/status.grpc.pb.h"

namespace kerf::e2e {

// Of a call that must be answered.
inline constexpr std::chrono::seconds kPatience{5};

// The tests that take long, and have the machine for themselves, are asked for what is promised.
inline bool IsLongTest() {
  const char* const text = std::getenv("KERF_STRANGERS_SECONDS");
  return text != nullptr && std::stoi(text) >= 10;
}

inline std::chrono::seconds FloodTime() {
  const char* const text = std::getenv("KERF_STRANGERS_SECONDS");
  return std::chrono::seconds(text == nullptr ? 3 : std::stoi(text));
}

// Of 99 of 100 honest calls. The short test runs beside others.
inline std::chrono::milliseconds SlowestCall() {
  return std::chrono::milliseconds(IsLongTest() ? 250 : 1'500);
}

inline std::uint16_t PortOf(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

// From 127.0.0.2, so that what it does is not what 127.0.0.1 is refused for. Not valid if nobody
// takes it.
inline UniqueFd ConnectAsStranger(const std::string& address) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in from{};
  from.sin_family = AF_INET;
  inet_pton(AF_INET, "127.0.0.2", &from.sin_addr);
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(PortOf(address));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0 ||
      connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    return UniqueFd();
  }
  return socket;
}

// An honest client: a call every 20 ms, every tenth over a new connection.
class Honest {
 public:
  explicit Honest(const std::string& address,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                      grpc::InsecureChannelCredentials())
      : address_(address), credentials_(credentials), thread_([this] { Run(); }) {}
  Honest(const Honest&) = delete;
  Honest& operator=(const Honest&) = delete;
  ~Honest() { Stop(); }

  void Stop() {
    is_stopping_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  // 99 of 100 calls took no longer than that.
  void ExpectGoodService(std::chrono::milliseconds slowest = SlowestCall()) {
    ExpectServed(99, slowest);
  }
  // Not one of them took longer. For a machine that does nothing else.
  void ExpectNoneDelayed(std::chrono::milliseconds slowest) { ExpectServed(100, slowest); }

 private:
  // None has failed, and so many of 100 took no longer than that.
  void ExpectServed(std::size_t percent, std::chrono::milliseconds slowest) {
    Stop();
    EXPECT_EQ(failures_, "");
    // Sanitizers make all of it slower, by no factor that one could name.
    if (!kMemoryIsOurs) return;
    ASSERT_GT(times_.size(), 20u);
    std::sort(times_.begin(), times_.end());
    // Of 100 calls the 99th, not the slowest.
    const std::size_t last = (times_.size() - 1) * percent / 100;
    EXPECT_LE(times_[last].count(), slowest.count()) << "of " << times_.size() << " calls";
  }

  // Of so many a percentile says something, however soon the attack is over.
  static constexpr int kMinCalls = 30;

  void Run() {
    std::unique_ptr<v1::StatusService::Stub> stub;
    for (int number = 0; number < kMinCalls || !is_stopping_.load(); ++number) {
      const auto begun_at = std::chrono::steady_clock::now();
      if (number % 10 == 0) {
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        stub = v1::StatusService::NewStub(
            grpc::CreateCustomChannel(address_, credentials_, arguments));
      }
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kPatience);
      context.set_wait_for_ready(true);
      v1::GetStatusResponse answer;
      const grpc::Status status = stub->GetStatus(&context, {}, &answer);
      if (!status.ok()) failures_ += Cat(number, ": ", status.error_message(), "\n");
      times_.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begun_at));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  const std::string address_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::atomic<bool> is_stopping_{false};
  std::string failures_;
  std::vector<std::chrono::milliseconds> times_;
  std::thread thread_;
};

}  // namespace kerf::e2e
