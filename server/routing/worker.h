// One worker as a front knows it: its connections, and how many calls it has from here.
#pragma once

#include <grpcpp/channel.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/trusted_socket.h"
#include "server/routing/worker_address.h"
#include "server/routing/worker_tls.h"

namespace kerf::routing {

// Of a front to each worker: one connection is worked off by one thread at a time, and has no room
// for more than some thousand calls.
inline constexpr std::size_t kConnectionsPerWorker = 4;

// Metadata of every call that comes from a front, for other fronts to refuse it: calls that go
// from front to front may go round for ever.
inline constexpr char kFrontMetadata[] = "kerf-front";

// Metadata of a call for the worker of this name, whatever its shard key; a name may have any
// bytes.
inline constexpr char kWorkerMetadata[] = "kerf-worker-bin";

// Metadata of a call that is to meet none of the workers of these names, one each time, while there
// are others.
inline constexpr char kAvoidMetadata[] = "kerf-avoid-worker-bin";

// Each has places of its own: what asks the index never waits for uploads to end, nor they for it.
enum class CallKind : std::uint8_t { kUpload, kOther };
inline constexpr std::size_t kCallKindCount = 2;

// By kind.
using CallCounts = std::array<std::size_t, kCallKindCount>;

// Thread-safe. Connects when it is first used.
class Worker {
 public:
  // At most so many at once. `tls` outlives it; null: in the clear, as unix sockets always are.
  Worker(Endpoint endpoint, const CallCounts& max_calls, const WorkerTls* tls);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Endpoint& endpoint() const { return endpoint_; }
  const std::string& address() const { return endpoint_.address; }
  // Of which its certificate has to be; empty: it is spoken to in the clear.
  std::string tls_name() const { return tls_ == nullptr ? "" : tls_->NameOf(endpoint_); }
  // For the next call; calls take turns on the connections.
  std::shared_ptr<grpc::Channel> TakeChannel();
  // The same for one that shows a token. Null: none may be shown there, for the worker is spoken to
  // in the clear, or its unix socket is of a user who is neither root nor this process'.
  std::shared_ptr<grpc::Channel> TakeTokenChannel();
  // Not behind what uploads send.
  std::shared_ptr<grpc::Channel> TakeCheckChannel();
  // Lets go what nobody uses any more. Not from a thread of gRPC, which does not like its channels
  // to go while it is at work for them.
  void DropOldChannels();

  std::size_t call_count(CallKind kind) const {
    return call_counts_[static_cast<std::size_t>(kind)].load();
  }
  // Calls that have failed in a row by the worker's fault, for what looks for outliers.
  void CountCall(bool is_well) {
    if (is_well) {
      failure_count_.store(0);
    } else {
      failure_count_.fetch_add(1);
    }
  }
  int failure_count() const { return failure_count_.load(); }

  std::size_t max_calls(CallKind kind) const { return max_calls_[static_cast<std::size_t>(kind)]; }

 private:
  friend class CallPermit;

  // The last is for checks.
  static constexpr std::size_t kChannelCount = kConnectionsPerWorker + 1;
  struct OpenedChannel {
    std::shared_ptr<grpc::Channel> channel;
    // With which it was made; null: in the clear.
    std::shared_ptr<grpc::ChannelCredentials> credentials;
  };

  // One that is connected stays, whatever its credentials are; another one is made anew once they
  // have changed.
  std::shared_ptr<grpc::Channel> ChannelAt(std::size_t index);

  const Endpoint endpoint_;
  const CallCounts max_calls_;
  const WorkerTls* const tls_;
  std::mutex mutex_;
  std::array<OpenedChannel, kChannelCount> channels_;
  std::vector<std::shared_ptr<grpc::Channel>> old_channels_;
  // Of a unix socket: to no other one than was looked at. Null, and none: of others, and before the
  // first token.
  std::unique_ptr<TrustedSocket> socket_;
  std::array<std::shared_ptr<grpc::Channel>, kConnectionsPerWorker> token_channels_;
  std::atomic<std::size_t> next_channel_{0};
  std::atomic<int> failure_count_{0};
  std::array<std::atomic<std::size_t>, kCallKindCount> call_counts_{};
};

// A place among the calls of a worker, given back when it goes.
class CallPermit {
 public:
  // Empty if the worker has no place left.
  static CallPermit TryEnter(const std::shared_ptr<Worker>& worker, CallKind kind);
  CallPermit() = default;
  CallPermit(CallPermit&& other) noexcept = default;
  CallPermit& operator=(CallPermit&& other) noexcept;
  ~CallPermit() { Leave(); }

  explicit operator bool() const { return worker_ != nullptr; }
  const std::shared_ptr<Worker>& worker() const { return worker_; }

 private:
  CallPermit(std::shared_ptr<Worker> worker, CallKind kind)
      : worker_(std::move(worker)), kind_(kind) {}
  void Leave();

  std::shared_ptr<Worker> worker_;
  CallKind kind_ = CallKind::kOther;
};

}  // namespace kerf::routing
