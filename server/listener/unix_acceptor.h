// Takes the connections of unix sockets for gRPC, and can end them; and the memory that clients
// share (docs/adr/0034-shared-memory.md).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "server/net/shared_memories.h"

namespace kerf {

// A unix socket has no door: gRPC has its connections for itself, at the price of no copy. But gRPC
// (1.51) never ends one of which a write is under way, and waits for it: a client that does not
// read any more, as one that was stopped, would keep kerfd from ending for ever. Nor does its own
// listener ever accept again when descriptors were short once (CVE-2023-4785). So connections are
// accepted here, and a second descriptor of each is kept, which is all that it takes to end it.
//
// A connection whose first byte is that of kSharedMemoryHello is none for gRPC: with it comes
// memory that a client shares, and it is answered by a token, of which it is the life. One that
// says nothing for kFirstByteWait is gRPC's. Only of root and of this process's own user anything
// is received: what is received has to be closed, and a file of a stranger's program (FUSE) may
// never let go of who closes it, not even by SIGKILL.
//
// Thread-safe, but for Start, which is called once.
class UnixAcceptor {
 public:
  // `serve` takes a connection that does not block, from a thread of this class, or refuses it:
  // then it is closed. `memories` outlives it; null: none is taken, and all are gRPC's at once.
  UnixAcceptor(std::vector<UniqueFd> listeners, std::function<bool(UniqueFd)> serve,
               SharedMemories* memories = nullptr);
  // Ends what is left.
  ~UnixAcceptor();
  UnixAcceptor(const UnixAcceptor&) = delete;
  UnixAcceptor& operator=(const UnixAcceptor&) = delete;

  void Start();
  // From now on who comes is refused by the system. Connections that are there are ended once
  // `grace` is over, if they have not ended by then.
  void BeginStop(std::chrono::milliseconds grace);

  std::size_t connection_count() const { return connection_count_.load(); }

  // For a client's first byte, which a client of gRPC sends at once.
  static constexpr std::chrono::milliseconds kFirstByteWait{1'000};

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    UniqueFd second;
    // Until its first byte has come: what gRPC would have.
    UniqueFd unserved;
    Clock::time_point since;
    // Of the memory that has come with it.
    std::optional<SharedMemories::Token> token;
  };
  struct Silent {
    int number = -1;
    // Of the connection that it was then: another one may have its number.
    Clock::time_point since;
  };

  void Run();
  void RunOnce();
  void Arm();
  void Accept(int listener);
  bool AcceptOne(int listener);
  void OnEvent(int number);
  void Serve(int number);
  // Whatever is wrong with it, the connection ends.
  void TakeMemory(int number);
  bool IsTrusted(int socket) const;
  void ServeSilent();
  void Forget(int number);
  void EndAll();
  bool Watch(int socket, std::uint32_t events);
  void WatchFor(int socket, std::uint32_t events);
  int WaitMs() const;

  const std::vector<UniqueFd> listeners_;
  const std::function<bool(UniqueFd)> serve_;
  SharedMemories* const memories_;
  const uid_t own_user_;
  const UniqueFd epoll_;
  const UniqueFd wakeup_;
  // Of the thread alone, with what follows.
  std::vector<bool> is_armed_;
  Clock::time_point arms_at_;
  Clock::time_point ends_at_ = Clock::time_point::max();
  // By the numbers of their second descriptors.
  std::unordered_map<int, Connection> connections_;
  // All that have come within kFirstByteWait, in their order.
  std::deque<Silent> silent_;
  std::atomic<std::size_t> connection_count_{0};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_closing_{false};
  std::atomic<std::chrono::milliseconds::rep> grace_ms_{0};
  std::thread thread_;
};

}  // namespace kerf
