// What the calls of the Index and the Repository services have in common: how a request is read,
// and run.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/task.h"
#include "base/thread_pool.h"
#include "google/protobuf/message.h"
#include "kerf/v1/index.pb.h"
#include "kernels/fingerprint/digest.h"
#include "server/access/gate.h"
#include "server/audit/call_record.h"
#include "server/edge/epoch_pace.h"
#include "server/edge/epoch_raises.h"
#include "server/edge/index_calls.h"
#include "server/index/index.h"
#include "server/quota/quotas.h"
#include "server/worker/known_repositories.h"

namespace kerf {

// Entries of one request.
inline constexpr int kMaxIndexRequestEntries = limits::kMaxIndexRequestEntries;

// Whom calls ask, and where they go on, all of which outlives them; of one call also who it is that
// asks, what for, and what is told of it.
struct AskedIndex {
  Index* index = nullptr;
  ThreadPool* pool = nullptr;
  const access::Gate* gate = nullptr;
  // Where calls are told of; null: nowhere.
  audit::Sink* audit = nullptr;
  EpochPace* pace = nullptr;
  EpochRaises* raises = nullptr;
  Quotas* quotas = nullptr;
  // Calls at once, of everybody.
  std::size_t max_calls = 0;
  // Null: all repositories may be used, with whatever algorithm.
  KnownRepositories* repositories = nullptr;
  access::Identity caller = {};
  access::Need need = access::Need::kAdmin;
  std::shared_ptr<audit::CallRecord> record = nullptr;
  // Among the caller's calls, until the index lets go of this one.
  std::shared_ptr<const Places::Hold> place = nullptr;
};

// What gRPC has of a call.
struct IncomingCall {
  grpc::CallbackServerContext* context = nullptr;
  const grpc::ByteBuffer* request = nullptr;
  grpc::ByteBuffer* response = nullptr;
  // As "kerf.v1.IndexService/GetIndexStats".
  std::string_view method;
  access::Need need = access::Need::kAdmin;
};

absl::Status BadField(std::string_view field, std::string_view what);
absl::StatusOr<RepositoryId> ParseRepository(const v1::RepositoryRef& ref);
// The same of the one that a call is about, if its caller may do there what it asks, and nobody has
// called too often there.
absl::StatusOr<RepositoryId> ReadRepository(const AskedIndex& asked, const v1::RepositoryRef& ref);
// BAD_FIELD for more than kMaxIndexRequestEntries.
absl::Status CheckCount(int count);
// The same for the `limit` of a call that looks at entries: 1 to kMaxIndexRequestEntries.
absl::Status CheckLimit(std::uint32_t limit);
absl::StatusOr<Digest> ReadDigest(const RepositoryId& repository, const std::string& bytes);
// Where a page begins.
absl::StatusOr<std::optional<Digest>> ReadAfter(const RepositoryId& repository,
                                                const std::string& after);
std::string WireDigest(const RepositoryId& repository, const Digest& digest);

// `bytes` as a request, unless they say more fields than one has.
absl::Status ParseRequest(const grpc::ByteBuffer& buffer, google::protobuf::Message* request);
// The repository that a request is about, as ParseRequest will read it, without the bytes in
// between being copied: of several names the last one, wherever they stand. The name is empty if it
// says none, one that is too long, or is no request, or one of more fields than a request has.
// Nobody has looked at what it says.
struct PeekedRepository {
  std::string name = {};
  // kerf.v1.DigestAlgorithm's number, if it is one.
  int digest_algorithm = 0;
};
PeekedRepository PeekRepository(const grpc::ByteBuffer& buffer);

template <typename Request, typename Response>
using IndexCallHandler = Task<absl::Status> (*)(AskedIndex, std::unique_ptr<Request>, Response*);

template <typename Request, typename Response>
IndexCalls::Work AnswerIndexCall(AskedIndex asked, grpc::ByteBuffer bytes,
                                 IndexCallHandler<Request, Response> handler) {
  auto request = std::make_unique<Request>();
  KERF_CO_RETURN_IF_ERROR(ParseRequest(bytes, request.get()));
  bytes.Clear();
  if constexpr (requires { request->repository(); }) {
    const v1::RepositoryRef& repository = request->repository();
    asked.record->SetRepository(repository.repository(), repository.digest_algorithm());
  }
  Response response;
  KERF_CO_RETURN_IF_ERROR(co_await handler(asked, std::move(request), &response));
  const grpc::Slice slice(response.SerializeAsString());
  co_return grpc::ByteBuffer(&slice, 1);
}

// Who calls, if he may; else the call is over, and `refused` is to be given to gRPC. It is told of
// in either case.
struct AdmittedCall {
  grpc::ServerUnaryReactor* refused = nullptr;
  AskedIndex asked = {};
};
AdmittedCall AdmitIndexCall(AskedIndex asked, const IncomingCall& call);
// Of an admitted call: null if its caller may do that in this repository, or nobody can tell yet;
// else the call is over, as above. It comes before the call is one of the repository's: whoever may
// do nothing there takes none of its places, and does not learn whether it has any left.
grpc::ServerUnaryReactor* RefuseForbidden(const AskedIndex& asked, const IncomingCall& call,
                                          const PeekedRepository& repository);

template <typename Request, typename Response>
grpc::ServerUnaryReactor* RunIndexCall(IndexCalls& calls, const AskedIndex& asked,
                                       const IncomingCall& call,
                                       IndexCallHandler<Request, Response> handler) {
  AdmittedCall admitted = AdmitIndexCall(asked, call);
  if (admitted.refused != nullptr) return admitted.refused;
  auto record = admitted.asked.record;
  IndexCalls::Request about{.bytes = call.request->Length(), .repository = {}};
  if constexpr (requires(const Request& request) { request.repository().repository(); }) {
    PeekedRepository repository = PeekRepository(*call.request);
    auto* const refused = RefuseForbidden(admitted.asked, call, repository);
    if (refused != nullptr) return refused;
    about.repository = std::move(repository.name);
  }
  // A copy of the buffer has the same bytes, not a copy of them.
  return calls.Run(call.context, call.response, std::move(about), std::move(record),
                   AnswerIndexCall(std::move(admitted.asked), *call.request, handler));
}

}  // namespace kerf
