// The Index service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/index.grpc.pb.h"
#include "server/index/index.h"
#include "server/worker/thread_pool.h"

namespace kerf {

// Entries of one request.
inline constexpr int kMaxIndexRequestEntries = 65'536;

// Calls run on the pool: an index blocks, and gRPC's threads must not.
class IndexService final : public v1::IndexService::CallbackService {
 public:
  // Both outlive the service and its calls.
  IndexService(Index* index, ThreadPool* pool) : index_(index), pool_(pool) {}

  grpc::ServerUnaryReactor* GetIndexStats(grpc::CallbackServerContext* context,
                                          const v1::GetIndexStatsRequest* request,
                                          v1::GetIndexStatsResponse* response) override;
  grpc::ServerUnaryReactor* LookupChunks(grpc::CallbackServerContext* context,
                                         const v1::LookupChunksRequest* request,
                                         v1::LookupChunksResponse* response) override;
  grpc::ServerUnaryReactor* CommitChunks(grpc::CallbackServerContext* context,
                                         const v1::CommitChunksRequest* request,
                                         v1::CommitChunksResponse* response) override;
  grpc::ServerUnaryReactor* ForgetChunks(grpc::CallbackServerContext* context,
                                         const v1::ForgetChunksRequest* request,
                                         v1::ForgetChunksResponse* response) override;
  grpc::ServerUnaryReactor* AdvanceEpoch(grpc::CallbackServerContext* context,
                                         const v1::AdvanceEpochRequest* request,
                                         v1::AdvanceEpochResponse* response) override;

 private:
  Index* const index_;
  ThreadPool* const pool_;
};

}  // namespace kerf
