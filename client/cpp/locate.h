// Past a front, straight to the worker that it would send a stream to (docs/spec/routing.md,
// "Straight to a worker").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/server_address.h"
#include "grpcpp/channel.h"

namespace kerf::client {

// A worker, in the words of a front.
struct LocatedWorker {
  // Empty: whoever was asked is no front.
  std::string address;
  // Of which its certificate is; empty: of the host of its address.
  std::string tls_name;
};

// Where the front at the other end of `channel` reaches the worker that has `shard_key`; none of
// `avoid`, names of workers, while there are others. Ends within seconds, sooner with Cancelled.
absl::StatusOr<LocatedWorker> LocateWorker(const std::shared_ptr<grpc::Channel>& channel,
                                           const std::string& shard_key,
                                           const std::vector<std::string>& avoid,
                                           CallCancellation& cancellation);

// Whether a client of `server` may believe that `worker`, which a front there named, is the same
// machine for both: a socket of the system or a loopback address is, if `server` is one of the same
// kind. Not if it has no form of an address.
bool IsReachableAs(const std::string& server, const std::string& worker);

struct WorkerChannel {
  // By which name it was spoken to, too.
  ServerAddress place;
  std::shared_ptr<grpc::Channel> channel;
};

// To the worker of `shard_key`, connected. Else the server itself is the way, and the status says
// why: `server`, to which `channel` leads, is no front or knows of no worker, or the worker cannot
// be reached from here within some seconds. Over TLS, a worker's certificate has to be of the name
// by which the front knows it, or without one of the host of its address, whatever the server's own
// has to be of: Unauthenticated if it is not, or TLS comes to nothing otherwise.
absl::StatusOr<WorkerChannel> ConnectToWorker(const ServerAddress& server,
                                              const std::shared_ptr<grpc::Channel>& channel,
                                              const std::string& shard_key,
                                              const std::vector<std::string>& avoid,
                                              CallCancellation& cancellation);

}  // namespace kerf::client
