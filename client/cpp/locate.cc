#include "client/cpp/locate.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/request_id.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/tls_check.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/routing.grpc.pb.h"

namespace kerf::client {
namespace {

constexpr std::chrono::seconds kLocateDeadline{5};
// Of the text that a server gives as an address.
constexpr std::size_t kMaxAddressBytes = 512;
constexpr std::size_t kMaxNameBytes = 253;

enum class Reach : std::uint8_t { kNone, kSocket, kLoopback, kNetwork };

Reach ReachOf(std::string_view address) {
  if (address.size() > kMaxAddressBytes) return Reach::kNone;
  const auto parsed = ParseServers(address);
  if (!parsed.ok() || parsed->size() != 1) return Reach::kNone;
  if (address.starts_with("unix:")) return Reach::kSocket;
  // Whoever connects to no address in particular meets his own machine.
  for (const std::string_view loopback : {"127.", "localhost:", "[::1]:", "0.", "[::]:"}) {
    if (address.starts_with(loopback)) return Reach::kLoopback;
  }
  return Reach::kNetwork;
}

// Or nothing: of a certificate, and as far as it may be printed and given to libraries.
bool IsName(std::string_view name) {
  return name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](char character) {
           return (character >= 'a' && character <= 'z') ||
                  (character >= 'A' && character <= 'Z') ||
                  (character >= '0' && character <= '9') || character == '-' || character == '_' ||
                  character == '.' || character == ':';
         });
}

}  // namespace

absl::StatusOr<LocatedWorker> LocateWorker(const std::shared_ptr<grpc::Channel>& channel,
                                           const std::string& shard_key,
                                           const std::vector<std::string>& avoid,
                                           CallCancellation& cancellation) {
  v1::LocateRequest request;
  request.set_shard_key(shard_key);
  for (const std::string& name : avoid) request.add_avoid(name);
  v1::LocateResponse place;
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + kLocateDeadline);
  const std::string request_id = NewRequestId();
  call.AddMetadata(kRequestIdMetadata, request_id);
  const CallCancellation::Scope scope(cancellation, call);
  const grpc::Status status = v1::RoutingService::NewStub(channel)->Locate(&call, request, &place);
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return LocatedWorker();
  if (!status.ok()) return WithRequestId(FromGrpc(status), request_id);
  return LocatedWorker{place.address(), place.tls_name()};
}

bool IsReachableAs(const std::string& server, const std::string& worker) {
  switch (ReachOf(worker)) {
    case Reach::kNone:
      return false;
    case Reach::kSocket:
      return ReachOf(server) == Reach::kSocket;
    case Reach::kLoopback:
      return ReachOf(server) == Reach::kSocket || ReachOf(server) == Reach::kLoopback;
    case Reach::kNetwork:
      return true;
  }
  return false;
}

absl::StatusOr<WorkerChannel> ConnectToWorker(const ServerAddress& server,
                                              const std::shared_ptr<grpc::Channel>& channel,
                                              const std::string& shard_key,
                                              const std::vector<std::string>& avoid,
                                              CallCancellation& cancellation) {
  KERF_ASSIGN_OR_RETURN(const LocatedWorker located,
                        LocateWorker(channel, shard_key, avoid, cancellation));
  const std::string& address = located.address;
  if (address.empty()) return absl::NotFoundError(Cat(server.text, " is no front"));
  if (!IsReachableAs(server.text, address)) {
    return absl::FailedPreconditionError(
        Cat("the front names ", std::string_view(address).substr(0, kMaxAddressBytes),
            ", which is no address, or another machine's here than there"));
  }
  if (!IsName(located.tls_name)) {
    return absl::FailedPreconditionError(
        Cat("the front has a name for the worker at ", address, " that is none"));
  }
  ServerAddress place{address, server.tls.WithName(located.tls_name)};
  KERF_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> worker, OpenChannel(place));
  if (!Connects(*worker, &cancellation)) {
    KERF_RETURN_IF_ERROR(CheckTls(address, place.tls, &cancellation));
    return absl::UnavailableError(Cat("nobody answers at ", address,
                                      ", where the front has the worker (a NetworkPolicy or a "
                                      "firewall may be between)"));
  }
  return WorkerChannel{std::move(place), std::move(worker)};
}

}  // namespace kerf::client
