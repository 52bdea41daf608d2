// The Repository service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/repository.grpc.pb.h"
#include "server/edge/index_calls.h"
#include "server/edge/index_request.h"

namespace kerf {

// Repositories of one answer of ListRepositories.
inline constexpr std::uint32_t kMaxListedRepositories = 1000;

// Its calls are of those of the Index service: they have the same places, and run as they do.
class RepositoryService final
    : public v1::RepositoryService::WithRawCallbackMethod_CreateRepository<
          v1::RepositoryService::WithRawCallbackMethod_ListRepositories<
              v1::RepositoryService::WithRawCallbackMethod_DropRepository<
                  v1::RepositoryService::WithRawCallbackMethod_ResetEpoch<
                      v1::RepositoryService::Service>>>> {
 public:
  // All outlive the service and its calls. The pool is that of `calls`.
  RepositoryService(const AskedIndex& asked, IndexCalls* calls) : asked_(asked), calls_(calls) {}

  grpc::ServerUnaryReactor* CreateRepository(grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListRepositories(grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DropRepository(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ResetEpoch(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;

 private:
  const AskedIndex asked_;
  IndexCalls* const calls_;
};

}  // namespace kerf
