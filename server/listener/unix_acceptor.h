// Takes the connections of unix sockets for gRPC, and can end them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"

namespace kerf {

// A unix socket has no door: gRPC has its connections for itself, at the price of no copy. But gRPC
// (1.51) never ends one of which a write is under way, and waits for it: a client that does not
// read any more, as one that was stopped, would keep kerfd from ending for ever. Nor does its own
// listener ever accept again when descriptors were short once (CVE-2023-4785). So connections are
// accepted here, and a second descriptor of each is kept, which is all that it takes to end it.
//
// Thread-safe, but for Start, which is called once.
class UnixAcceptor {
 public:
  // `serve` takes a connection that does not block, from a thread of this class, or refuses it:
  // then it is closed.
  UnixAcceptor(std::vector<UniqueFd> listeners, std::function<bool(UniqueFd)> serve);
  // Ends what is left.
  ~UnixAcceptor();
  UnixAcceptor(const UnixAcceptor&) = delete;
  UnixAcceptor& operator=(const UnixAcceptor&) = delete;

  void Start();
  // From now on who comes is refused by the system. Connections that are there are ended once
  // `grace` is over, if they have not ended by then.
  void BeginStop(std::chrono::milliseconds grace);

  std::size_t connection_count() const { return connection_count_.load(); }

 private:
  void Run();
  void Arm();
  void Accept(int listener);
  void Forget(int number);
  void EndAll();
  bool Watch(int socket, std::uint32_t events);

  const std::vector<UniqueFd> listeners_;
  const std::function<bool(UniqueFd)> serve_;
  const UniqueFd epoll_;
  const UniqueFd wakeup_;
  // Of the thread alone, with what follows.
  std::vector<bool> is_armed_;
  std::chrono::steady_clock::time_point arms_at_;
  // The second descriptor of each, by its number.
  std::unordered_map<int, UniqueFd> connections_;
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_closing_{false};
  std::atomic<std::chrono::milliseconds::rep> grace_ms_{0};
  std::thread thread_;
};

}  // namespace kerf
