// A TCP connection that is longer than it is: what goes through it arrives late.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace kerf::e2e {

// Listens on loopback while it lives. Thread-safe.
class SlowProxy {
 public:
  // What comes in goes to `port` of 127.0.0.1 after `delay`, and so does what comes back; how much
  // goes through is not limited by it.
  SlowProxy(int port, std::chrono::milliseconds delay);
  SlowProxy(const SlowProxy&) = delete;
  SlowProxy& operator=(const SlowProxy&) = delete;
  ~SlowProxy();

  // HOST:PORT where it listens.
  std::string address() const;
  int connection_count() const { return connection_count_.load(); }

 private:
  // Two sockets, and a thread for each direction.
  struct Pair {
    UniqueFd near;
    UniqueFd far;
    std::thread there;
    std::thread back;
  };

  void Accept();

  const int target_port_;
  const std::chrono::milliseconds delay_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<int> connection_count_{0};
  std::atomic<bool> is_stopping_{false};
  // accepter_'s.
  std::list<Pair> pairs_;
  std::thread accepter_;
};

}  // namespace kerf::e2e
