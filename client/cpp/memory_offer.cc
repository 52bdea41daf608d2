#include "client/cpp/memory_offer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/passed_file.h"
#include "base/request_id.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/trusted_socket.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::client {
namespace {

constexpr std::chrono::milliseconds kPatience{1'000};
constexpr std::string_view kSharedDataFeature = "shared-data";

absl::Status NotOffered(std::string_view what) {
  return absl::UnavailableError(ToAbsl(Cat("no memory is shared with the server: ", what)));
}

absl::StatusOr<UniqueFd> Connect(const std::string& server) {
  const std::string path = SocketPathOf(server);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return NotOffered("it is at no unix socket");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  // Where the server is busy there is no waiting for it.
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return NotOffered(std::strerror(errno));
  }
  return socket;
}

absl::StatusOr<std::string> ReceiveToken(int socket) {
  std::array<char, kSharedMemoryTokenBytes> token{};
  pollfd wanted{.fd = socket, .events = POLLIN, .revents = 0};
  if (poll(&wanted, 1, static_cast<int>(kPatience.count())) != 1) {
    return NotOffered("it says nothing");
  }
  if (recv(socket, token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return NotOffered("it has not taken it");
  }
  return std::string(token.begin(), token.end());
}

}  // namespace

bool MemoryOffer::IsTaken(const std::shared_ptr<grpc::Channel>& channel,
                          CallCancellation& cancellation) {
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + kPatience);
  call.AddMetadata(kRequestIdMetadata, NewRequestId());
  const CallCancellation::Scope scope(cancellation, call);
  v1::GetCapabilitiesResponse response;
  if (!v1::ChunkingService::NewStub(channel)->GetCapabilities(&call, {}, &response).ok()) {
    return false;
  }
  return std::find(response.features().begin(), response.features().end(), kSharedDataFeature) !=
         response.features().end();
}

absl::StatusOr<std::shared_ptr<MemoryOffer>> MemoryOffer::Make(const std::string& server,
                                                               std::size_t size_bytes) {
  KERF_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::Make(size_bytes));
  KERF_ASSIGN_OR_RETURN(UniqueFd connection, Connect(server));
  const auto* const hello = reinterpret_cast<const std::uint8_t*>(kSharedMemoryHello.data());
  KERF_RETURN_IF_ERROR(SendFile(connection.get(), {hello, kSharedMemoryHello.size()}, memory.fd()));
  KERF_ASSIGN_OR_RETURN(std::string token, ReceiveToken(connection.get()));
  return std::shared_ptr<MemoryOffer>(
      new MemoryOffer(std::move(connection), std::move(memory), std::move(token)));
}

}  // namespace kerf::client
