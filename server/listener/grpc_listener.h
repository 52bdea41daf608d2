// A gRPC server on its addresses: behind a door where these are TCP's, with bounds of memory,
// health, and a quick end.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "server/door/door.h"
#include "server/listener/client_peer.h"
#include "server/listener/turned_away.h"
#include "server/listener/unix_acceptor.h"
#include "server/metrics/page.h"

namespace kerf {

class SharedMemories;
class TlsSource;

struct TransportLimits {
  // Encoded; messages that are a little larger are left to the services to refuse.
  std::uint32_t max_message_bytes = 0;
  // Of gRPC's own buffers, messages that were read of them and are still there included.
  std::uint64_t memory_bytes = 0;
  // Of these, for what streams have sent before it is read: together, all the same. Half of it is
  // the door's, where there is one.
  std::uint64_t window_bytes = 0;
  // At least 1.
  std::size_t max_streams = 0;
  // At once, over TCP; fewer if the process may have no more descriptors.
  std::size_t max_connections = 4096;
  // How many clients one address may stand for, as that of a front does.
  std::size_t clients_per_address = 1;
  // Of what a client does not read, over TCP: a little later than a service's own time for that,
  // which tells the client why.
  std::chrono::milliseconds write_stall = limits::kWriteStall;
  // Of those that are served over TCP, as a server; outlives the listener. Null: in the clear.
  const TlsSource* tls = nullptr;
  // Who calls is to be known (SeenOf): unix sockets have a door, too.
  bool asks_who = false;
  // Then: of such a client's connections at once; nothing: no bound of its own. May be null.
  std::function<std::optional<std::uint64_t>(const SeenClient& client)> max_connections_of =
      nullptr;
  // Where memory goes that clients share at unix sockets without a door; outlives the listener.
  // Null: none is taken.
  SharedMemories* shared_memories = nullptr;
  // Told of whoever the door does not let in, as often as strangers like; may not wait. May be
  // null.
  std::function<void(const TurnedAway& client)> on_turned_away = nullptr;
};

// How many files a process must be able to have open for so many connections over TCP, and how many
// of these go with a limit.
std::uint64_t FilesFor(std::size_t connection_count);
std::size_t ConnectionsThatFit(std::uint64_t open_file_limit);

// Thread-safe, but for Stop, which is called once.
class GrpcListener {
 public:
  // Serves when it returns; `add_services` registers what is served beside health and reflection,
  // and `services` are the names by which health is asked for that. `listen` are addresses as
  // ParseListenAddress takes them. FailedPrecondition for one that is taken, InvalidArgument for
  // one that is none.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Start(
      const std::vector<std::string>& listen, const TransportLimits& limits,
      const std::function<void(grpc::ServerBuilder& builder)>& add_services,
      std::vector<std::string> services = {});
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;
  // One that has started is to be stopped before.
  ~GrpcListener();

  // The bound addresses, with the ports that were picked, in the order of `listen`.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // What health says of the server itself, and of each of its services; SERVING in the beginning.
  void SetServing(bool is_serving);
  // The same of one part, a health service of its own from the first call on.
  void SetServing(const std::string& part, bool is_serving);

  // Of the door, if there is one.
  void AddMetrics(metrics::Page& page) const;

  // Cancels the calls that are left, waits for their ends, and closes the sockets. Takes no longer
  // than a few seconds, whatever clients do.
  void Stop();

 private:
  GrpcListener() = default;

  void OpenDoor(const TransportLimits& limits, std::vector<UniqueFd> sockets);
  void RemoveSocketFiles();
  // Whether gRPC has taken it.
  bool Serve(UniqueFd socket);

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  // Null: none of the addresses has a door.
  std::unique_ptr<door::Door> door_;
  // Null: all have.
  std::unique_ptr<UnixAcceptor> unix_;
  std::atomic<bool> is_stopping_{false};
  std::vector<std::string> addresses_;
  std::vector<std::string> socket_paths_;
  std::vector<std::string> services_;
};

}  // namespace kerf
