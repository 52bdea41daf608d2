// One thread of a door: takes connections, and moves what its relays have to move when their
// sockets are ready.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/unique_fd.h"
#include "server/door/relay.h"
#include "server/door/slices.h"

namespace kerf::door {

// What its methods do is done by its thread, soon. Thread-safe.
class DoorLoop {
 public:
  // `context`, whose pool is this one's own, and the listening sockets, which do not block and
  // other loops may have too, outlive it.
  DoorLoop(const RelayContext& context, std::span<const UniqueFd> listeners);
  DoorLoop(const DoorLoop&) = delete;
  DoorLoop& operator=(const DoorLoop&) = delete;
  // Without Wait: as if it were called.
  ~DoorLoop();

  // Before it, what follows may not be called. `others` are all loops of the door, this one among
  // them, and outlive its thread.
  void Start(std::span<const std::unique_ptr<DoorLoop>> others);
  // No new connections from here on.
  void StopAccepting();
  // Clients are told to go; their calls go on for so long at most.
  void BeginStop(std::chrono::milliseconds grace);
  // For its thread to end; at once without BeginStop.
  void Wait();

  // That it has, and was given.
  std::size_t client_count() const { return client_count_.load(); }

 private:
  struct Client;
  // What epoll gives back: one of a client's two sockets, or a listener.
  struct Watched {
    Client* client = nullptr;
    Relay::Side side = Relay::Side::kClient;
    int listener = -1;
  };
  struct Client {
    std::unique_ptr<Relay> relay;
    Watched client_socket;
    Watched server_socket;
    bool is_client_writing = false;
    bool is_server_writing = false;
    std::uint64_t server_count = 0;
    std::size_t place = 0;
    // It stands in unread_.
    bool is_unread = false;
  };

  // Accepted, and not any loop's yet.
  struct Newcomer {
    UniqueFd socket;
    ClientAddress address;
    // Loops that had no room for it.
    std::size_t tried_count = 0;
  };

  // From any thread.
  void Give(Newcomer newcomer);
  std::vector<Newcomer> TakeGiven();
  void Run();
  void HandleUnread(Time now);
  void Handle(const Watched& watched, std::uint32_t events, Time now);
  void Accept(int listener, Time now);
  void AddClient(Newcomer newcomer, Time now);
  // The loop with the fewest, this one if it is one of them: who has many connections is in the way
  // of as few others as may be, and each thread has its part of the work.
  DoorLoop& LeastBusy();
  // Of some that are drawn, the one without calls that is least missed. False: all have calls.
  bool MakeRoom(Time now);
  void ForEach(const std::function<void(Relay& relay)>& visit);
  void Settle(Client& client);
  void Remove(Client& client);
  // Counts and logs why a connection has ended, or was not taken.
  void CountEnd(const ClientAddress& address, EndReason reason);
  // The same of one that was not let in, which is told of.
  void TurnAway(const ClientAddress& address, EndReason reason);
  void ArmListeners();
  bool Control(int operation, int socket, std::uint32_t events, void* data);

  BlockPool pool_;
  RelayContext context_;
  const std::span<const UniqueFd> listeners_;
  UniqueFd epoll_;
  UniqueFd wakeup_;
  std::vector<Watched> watched_listeners_;
  std::vector<bool> is_listener_armed_;
  Random random_;
  std::vector<std::unique_ptr<Client>> clients_;
  // Have read what they have not given out, of which no event will tell.
  std::vector<Client*> unread_;
  // Which events of the same round may still name.
  std::vector<std::unique_ptr<Client>> removed_;
  Time checked_at_;

  std::atomic<std::size_t> client_count_{0};

  std::span<const std::unique_ptr<DoorLoop>> others_;
  std::mutex given_mutex_;
  std::vector<Newcomer> given_;

  std::atomic<bool> is_accepting_{true};
  std::atomic<bool> is_stopping_{false};
  std::atomic<std::int64_t> grace_ms_{0};
  // Last: it uses all of them.
  std::thread thread_;
};

}  // namespace kerf::door
