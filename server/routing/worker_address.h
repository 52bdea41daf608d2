// Where a front finds workers, as an operator writes it.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf::routing {

struct WorkerAddress {
  // All addresses of `host` are workers, whoever they are.
  bool is_group = false;
  // Of a group.
  std::string host;
  int port = 0;
  // Of one worker: unix:PATH or HOST:PORT.
  std::string text;
};

// "unix:PATH" and "HOST:PORT" are one worker each, and "dns:HOST:PORT" is as many as the name has
// addresses, as that of a headless Service. InvalidArgument says how an address is written.
absl::StatusOr<WorkerAddress> ParseWorkerAddress(std::string_view text);

// One worker that was found.
struct Endpoint {
  // As clients write it: unix:PATH or HOST:PORT.
  std::string address;
  // Whether `address` names the worker for good. That of a pod does not: it is another one after
  // each restart.
  bool is_name = false;
  // Of which its certificate has to be: as the operator wrote it, also where `address` is one that
  // a name server has for it. Empty of a unix socket.
  std::string host = "";

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// Of an address that ParseWorkerAddress took for one worker.
Endpoint EndpointOf(const WorkerAddress& one);
// Of one address, as numbers, of a group.
Endpoint EndpointOf(const WorkerAddress& group, const std::string& host_address);

// As gRPC takes it.
std::string GrpcTargetOf(const Endpoint& endpoint);

}  // namespace kerf::routing
