// The Index service: gRPC's side.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "base/limits.h"
#include "base/thread_pool.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/access/gate.h"
#include "server/audit/call_record.h"
#include "server/edge/index_calls.h"
#include "server/index/index.h"

namespace kerf {

// Entries of one request.
inline constexpr int kMaxIndexRequestEntries = limits::kMaxIndexRequestEntries;
// Entries of one answer of ScanChunks.
inline constexpr std::size_t kMaxScannedEntries = 16'384;

// Whom a call asks, where it goes on, who it is that asks, what for, and what is told of it.
struct AskedIndex {
  Index* index = nullptr;
  ThreadPool* pool = nullptr;
  const access::Gate* gate = nullptr;
  access::Identity caller = {};
  access::Need need = access::Need::kAdmin;
  std::shared_ptr<audit::CallRecord> record = nullptr;
};

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
  // All outlive the service and its calls. The pool is that of `calls`. `audit` may be null.
  IndexService(const access::Gate* gate, Index* index, ThreadPool* pool, IndexCalls* calls,
               audit::Sink* audit)
      : asked_{.index = index, .pool = pool, .gate = gate}, calls_(calls), audit_(audit) {}

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
  audit::Sink* const audit_;
};

}  // namespace kerf
