// One worker as a front knows it: its connections, and how many calls it has from here.
#pragma once

#include <grpcpp/channel.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "server/routing/worker_address.h"

namespace kerf::routing {

// Of a front to each worker: one connection is worked off by one thread at a time, and has no room
// for more than some thousand calls.
inline constexpr std::size_t kConnectionsPerWorker = 4;

// Thread-safe. Connects when it is first used.
class Worker {
 public:
  // At most `max_calls` at once.
  Worker(Endpoint endpoint, std::size_t max_calls);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  const std::string& address() const { return endpoint_.address; }
  // For the next call; calls take turns on the connections.
  const std::shared_ptr<grpc::Channel>& TakeChannel();
  // Not behind what uploads send.
  const std::shared_ptr<grpc::Channel>& check_channel() const { return check_channel_; }

  std::size_t call_count() const { return call_count_.load(); }
  std::size_t max_calls() const { return max_calls_; }

 private:
  friend class CallPermit;

  const Endpoint endpoint_;
  const std::size_t max_calls_;
  std::array<std::shared_ptr<grpc::Channel>, kConnectionsPerWorker> channels_;
  std::shared_ptr<grpc::Channel> check_channel_;
  std::atomic<std::size_t> next_channel_{0};
  std::atomic<std::size_t> call_count_{0};
};

// A place among the calls of a worker, given back when it goes.
class CallPermit {
 public:
  // Empty if the worker has no place left.
  static CallPermit TryEnter(const std::shared_ptr<Worker>& worker);
  CallPermit() = default;
  CallPermit(CallPermit&& other) noexcept = default;
  CallPermit& operator=(CallPermit&& other) noexcept;
  ~CallPermit() { Leave(); }

  explicit operator bool() const { return worker_ != nullptr; }
  const std::shared_ptr<Worker>& worker() const { return worker_; }

 private:
  explicit CallPermit(std::shared_ptr<Worker> worker) : worker_(std::move(worker)) {}
  void Leave();

  std::shared_ptr<Worker> worker_;
};

}  // namespace kerf::routing
