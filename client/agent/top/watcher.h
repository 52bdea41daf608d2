// Asks servers how they are: workers themselves, and fronts for all of theirs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/top/worker_look.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace kerf::agent {

// Not thread-safe. Keeps its connections.
class Watcher {
 public:
  // Questions end at once when `cancelled` becomes true; it outlives the watcher. InvalidArgument
  // for what is no address.
  static absl::StatusOr<std::unique_ptr<Watcher>> Create(const std::vector<std::string>& servers,
                                                         const std::atomic<bool>& cancelled);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // A look at each worker, in the order of their names. A server that does not answer is a lost
  // worker; so is a worker that its front cannot reach. All questions go through the front that
  // knows the worker: nobody else need reach it, and no address that a front tells is believed.
  WorkerLooks Look();

 private:
  struct Server {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };
  struct Question;

  explicit Watcher(const std::atomic<bool>& cancelled) : cancelled_(cancelled) {}
  // Asks all, some at a time, and waits for all answers.
  void Ask(std::vector<std::unique_ptr<Question>>& questions,
           const std::function<void(Question&)>& start);
  void TakeAnswer(Question& question, grpc::Status status);
  // What a server's answer about its workers asks for next, and whom it has lost.
  static void Understand(const Question& list, std::vector<std::unique_ptr<Question>>& questions,
                         WorkerLooks& lost);

  const std::atomic<bool>& cancelled_;
  std::vector<Server> servers_;
  // What the workers of the last look have called themselves, by address: a lost one keeps its name
  // and place.
  std::map<std::string, std::string> names_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_count_ = 0;
};

}  // namespace kerf::agent
