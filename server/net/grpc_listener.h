// A gRPC server on its addresses: bounds of memory, health, and a quick end.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf {

struct TransportLimits {
  // Encoded; messages that are a little larger are left to the services to refuse.
  std::uint32_t max_message_bytes = 0;
  // Of gRPC's own buffers, messages that were read of them and are still there included.
  std::uint64_t memory_bytes = 0;
  // Of these, for what streams have sent before it is read: together, all the same.
  std::uint64_t window_bytes = 0;
  // At least 1.
  std::size_t max_streams = 0;
};

// Thread-safe, but for Stop, which is called once.
class GrpcListener {
 public:
  // Serves when it returns; `add_services` registers what is served beside health. `listen` are
  // addresses as ParseListenAddress takes them. FailedPrecondition for one that is taken,
  // InvalidArgument for one that is none.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Start(
      const std::vector<std::string>& listen, const TransportLimits& limits,
      const std::function<void(grpc::ServerBuilder& builder)>& add_services);
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // The bound addresses, with the ports that were picked, in the order of `listen`.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // What health says of the server itself; SERVING in the beginning.
  void SetServing(bool is_serving);
  // The same of one part, a health service of its own from the first call on.
  void SetServing(const std::string& part, bool is_serving);

  // Cancels the calls that are left, waits for their ends, and closes the sockets.
  void Stop();

 private:
  GrpcListener() = default;

  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::vector<std::string> socket_paths_;
};

}  // namespace kerf
