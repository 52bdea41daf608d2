// The Index service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/index_calls.h"
#include "server/edge/index_request.h"

namespace kerf {

// Entries of one answer of ScanChunks.
inline constexpr std::size_t kMaxScannedEntries = 16'384;

// Calls run on the pool, as coroutines: an index may work in the thread that asks it, and gRPC's
// threads must not. Those that wait for an index that answers later hold none. Requests come as
// bytes: a message of 4 MiB may say so many empty entries that the parsed form needs a hundred MiB,
// so that it is looked at before it is parsed, parsed by the pool's few threads only, and gone
// before the index is waited for.
class IndexService final
    : public v1::IndexService::WithRawCallbackMethod_GetIndexStats<
          v1::IndexService::WithRawCallbackMethod_LookupChunks<
              v1::IndexService::WithRawCallbackMethod_CommitChunks<
                  v1::IndexService::WithRawCallbackMethod_ForgetChunks<
                      v1::IndexService::WithRawCallbackMethod_ForgetOlderChunks<
                          v1::IndexService::WithRawCallbackMethod_ScanChunks<
                              v1::IndexService::WithRawCallbackMethod_AdvanceEpoch<
                                  v1::IndexService::Service>>>>>>> {
 public:
  // All outlive the service and its calls. The pool is that of `calls`.
  IndexService(const AskedIndex& asked, IndexCalls* calls) : asked_(asked), calls_(calls) {}

  grpc::ServerUnaryReactor* GetIndexStats(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* LookupChunks(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* CommitChunks(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ForgetChunks(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ForgetOlderChunks(grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* request,
                                              grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ScanChunks(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* AdvanceEpoch(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;

 private:
  const AskedIndex asked_;
  IndexCalls* const calls_;
};

}  // namespace kerf
