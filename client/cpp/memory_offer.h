// Memory that a client shares with the server at a unix socket: docs/adr/0034-shared-memory.md.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/shared_memory.h"
#include "base/unique_fd.h"
#include "client/cpp/call_cancellation.h"
#include "grpcpp/channel.h"

namespace kerf::client {

// The server knows it as long as this lives. Not thread-safe.
class MemoryOffer {
 public:
  // Whether the server says that it takes some. One that does not answer soon does not.
  static bool IsTaken(const std::shared_ptr<grpc::Channel>& channel,
                      CallCancellation& cancellation);

  // Offers so many bytes (base/shared_memory.h says how many there may be) to the server at
  // `server`, a "unix:PATH" whose server takes some, and waits a second at most for its word. An
  // error is no harm: the bytes go over the stream.
  static absl::StatusOr<std::shared_ptr<MemoryOffer>> Make(const std::string& server,
                                                           std::size_t size_bytes);

  // What Open says of it.
  const std::string& token() const { return token_; }
  SharedMemory& memory() { return memory_; }

 private:
  MemoryOffer(UniqueFd connection, SharedMemory memory, std::string token)
      : connection_(std::move(connection)), memory_(std::move(memory)), token_(std::move(token)) {}

  const UniqueFd connection_;
  SharedMemory memory_;
  const std::string token_;
};

}  // namespace kerf::client
