// Asks servers how they are: workers themselves, and fronts for all of theirs.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/agent/top/worker_look.h"
#include "client/cpp/server_address.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"

namespace kerf::agent {

// Not thread-safe. Keeps its connections.
class Watcher {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // How long a worker is shown as lost that no front names any more.
  static constexpr std::chrono::seconds kGoneTime{60};

  // Questions end at once when `cancelled` becomes true; it outlives the watcher. InvalidArgument
  // for what is no address. All of `servers` are asked.
  static absl::StatusOr<std::unique_ptr<Watcher>> Create(
      const client::ServerAddress& servers, const std::atomic<bool>& cancelled,
      Clock clock = [] { return std::chrono::steady_clock::now(); });
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // A look at each worker, in the order of their names. A server that does not answer is a lost
  // worker; so is a worker that its front cannot reach, and for a while one that was there and that
  // no front names any more, unless another one has its name now. All questions go through the
  // front that knows the worker: nobody else need reach it, and no address that a front tells is
  // believed. A process that is met in several ways is shown once. `poll` is called now and then
  // while answers are waited for.
  WorkerLooks Look(const std::function<void()>& poll = [] {});

 private:
  struct Server {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    bool is_lost = false;
  };
  struct Question;

  using Questions = std::vector<std::unique_ptr<Question>>;
  using LooksByAddress = std::map<std::string, WorkerLook>;
  // Another address of a worker.
  struct Alias {
    // Where it is shown.
    std::string address;
    std::uint64_t process = 0;
  };
  // Of a worker that has answered.
  struct Known {
    std::string name;
    // By a front, or by the user.
    std::chrono::steady_clock::time_point named_at;
  };

  Watcher(client::TlsChoice tls, const std::atomic<bool>& cancelled, Clock clock)
      : tls_(std::move(tls)), cancelled_(cancelled), clock_(std::move(clock)) {}
  // Of those that do not answer: a connection is made with the certificates of its channel's time.
  void OpenLostChannels();
  // Asks all, some at a time, and waits for all answers.
  void Ask(Questions& questions, const std::function<void(Question&)>& start);
  Questions AskForLists();
  void AskForStates(Questions& questions);
  void TakeAnswer(Question& question, grpc::Status status);
  // What a server's answer about its workers asks for next, and whom it has lost.
  static void Understand(const Question& list, Questions& questions, WorkerLooks& lost);
  bool IsNamedByUser(const std::string& address) const;
  // Leaves one look at each process.
  void MergeWays(LooksByAddress& found);
  void FindAliases(const LooksByAddress& found);
  std::string LastPlaceOf(const std::string& address, std::uint64_t process,
                          const LooksByAddress& found) const;
  bool IsVoid(const std::string& address, const Alias& alias, const LooksByAddress& found) const;
  // Gives those that are lost the names that they had, and adds those that nobody names any more.
  void Remember(LooksByAddress& found);

  const client::TlsChoice tls_;
  const std::atomic<bool>& cancelled_;
  const Clock clock_;
  std::vector<Server> servers_;
  // Of the look that is being taken.
  const std::function<void()>* poll_ = nullptr;
  // By address.
  std::map<std::string, Alias> aliases_;
  std::map<std::string, Known> known_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ended_count_ = 0;
};

}  // namespace kerf::agent
