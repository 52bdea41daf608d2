// A TCP connection that is longer than it is: what goes through it arrives late, stays on its way
// until the test lets it go on, or is lost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <list>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "e2e/network_namespace.h"

namespace kerf::e2e {

// Listens on loopback while it lives. Thread-safe.
class SlowProxy {
 public:
  // What comes in goes to `port` of 127.0.0.1 after `delay`, and so does what comes back; how much
  // goes through is not limited by it.
  SlowProxy(int port, std::chrono::milliseconds delay) : SlowProxy(Listen(0), port, delay) {}
  // The same, but it listens at that port of another network, as if it were there.
  SlowProxy(int port, std::chrono::milliseconds delay, const NetworkNamespace& from)
      : SlowProxy(ListenIn(from, port), port, delay) {}
  SlowProxy(const SlowProxy&) = delete;
  SlowProxy& operator=(const SlowProxy&) = delete;
  ~SlowProxy();

  // HOST:PORT where it listens.
  std::string address() const;
  int connection_count() const { return connection_count_.load(); }

  // From now on so many bytes more go to the server, of all connections together and rounded up to
  // a piece of each; what comes behind them waits for Release.
  void HoldAfter(std::int64_t bytes) { limits_.left_bytes.store(bytes); }
  // Until they have gone; false if they do not come.
  bool WaitUntilHeld(std::chrono::milliseconds patience) const;
  void Release() { limits_.left_bytes.store(kNoLimit); }

  // From now on a connection on which a piece of more bytes goes to the server takes it, and all
  // that follows, and lets nothing of it arrive, as a path does that loses long packets; 0: each
  // does. Connections that have lost something stay so.
  void LoseLongerThan(std::int64_t bytes) { limits_.max_piece_bytes.store(bytes); }
  void LoseNothing() { limits_.max_piece_bytes.store(kNoLimit); }

 private:
  // Two sockets, and a thread for each direction.
  struct Pair {
    UniqueFd near;
    UniqueFd far;
    std::thread there;
    std::thread back;
  };

  SlowProxy(UniqueFd listener, int port, std::chrono::milliseconds delay);
  static UniqueFd Listen(int port);
  static UniqueFd ListenIn(const NetworkNamespace& there, int port);

  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  void Accept();
  // Of the direction to the server; the other one has none.
  struct Limits {
    std::atomic<std::int64_t> left_bytes{kNoLimit};
    std::atomic<std::int64_t> max_piece_bytes{kNoLimit};
  };

  // Until one end is closed. Takes from what `limits`, if there are any, have left, and waits while
  // nothing is.
  static void Forward(int from, int to, std::chrono::milliseconds delay, Limits* limits);

  const int target_port_;
  const std::chrono::milliseconds delay_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<int> connection_count_{0};
  Limits limits_;
  std::atomic<bool> is_stopping_{false};
  // accepter_'s.
  std::list<Pair> pairs_;
  std::thread accepter_;
};

}  // namespace kerf::e2e
