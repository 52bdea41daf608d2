#include "server/edge/index_service.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/task.h"
#include "kernels/profile.h"
#include "server/edge/on_pool.h"
#include "server/errors/errors.h"
#include "server/index/rules.h"
#include "server/listener/client_peer.h"
#include "server/net/grpc_status.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"

namespace kerf {
namespace {

// Of a request beside its entries; the protocol has two.
constexpr int kOtherFields = 16;

constexpr std::size_t kMaxDigestBytes = sizeof(Digest::bytes);
// Of one entry in an answer: digest, length and locator, each with its tag and length, inside a
// field with its own.
constexpr std::size_t kMaxEncodedEntryBytes =
    2 + (2 + kMaxDigestBytes) + (1 + 5) + (2 + kMaxLocatorBytes);
static_assert(kMaxScannedEntries * kMaxEncodedEntryBytes + 2 + kMaxDigestBytes <=
              limits::kMaxAnswerBytes);

absl::Status BadField(std::string_view field, std::string_view what) {
  return MakeError(Reason::kBadField, Cat(field, ": ", what), {{"field", std::string(field)}});
}

// Which a call names, if its caller may do there what it asks.
absl::StatusOr<RepositoryId> ReadRepository(const AskedIndex& asked, const v1::RepositoryRef& ref) {
  if (absl::Status status = ValidateRepositoryName(ref.repository()); !status.ok()) {
    return BadField("repository.repository", MessageOf(status));
  }
  switch (ref.digest_algorithm()) {
    case v1::DIGEST_ALGORITHM_BLAKE3:
    case v1::DIGEST_ALGORITHM_SHA256:
    case v1::DIGEST_ALGORITHM_XXH3_128:
      break;
    default:
      return BadField("repository.digest_algorithm", "unknown algorithm");
  }
  KERF_RETURN_IF_ERROR(asked.gate->Check(asked.caller, asked.need, ref.repository()));
  return RepositoryId{ref.repository(), static_cast<DigestAlgorithm>(ref.digest_algorithm())};
}

absl::Status CheckCount(int count) {
  if (count <= kMaxIndexRequestEntries) return absl::OkStatus();
  return MakeError(Reason::kBadField, Cat(count, " entries in one request; at most ",
                                          kMaxIndexRequestEntries, " are taken"));
}

// How far it may be ahead of the index is for that to say.
absl::Status CheckEpoch(std::string_view field, std::uint64_t epoch) {
  if (epoch == 0) return BadField(field, "a store's first epoch is 1, not 0");
  if (epoch <= index_rules::kMaxEpoch) return absl::OkStatus();
  return BadField(field, Cat("is ", epoch, "; no store counts beyond ", index_rules::kMaxEpoch));
}

absl::StatusOr<Digest> ReadDigest(const RepositoryId& repository, const std::string& bytes) {
  const std::size_t size_bytes = DigestSizeBytes(repository.digest_algorithm);
  if (bytes.size() != size_bytes) {
    return BadField("digest",
                    Cat("has ", bytes.size(), " bytes; one of this repository has ", size_bytes));
  }
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), size_bytes);
  return digest;
}

// Where a page begins.
absl::StatusOr<std::optional<Digest>> ReadAfter(const RepositoryId& repository,
                                                const std::string& after) {
  if (after.empty()) return std::optional<Digest>();
  return ReadDigest(repository, after);
}

std::string WireDigest(const RepositoryId& repository, const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()),
          DigestSizeBytes(repository.digest_algorithm)};
}

template <typename Entries>
absl::StatusOr<std::vector<IndexEntry>> ReadEntries(const RepositoryId& repository,
                                                    const Entries& entries,
                                                    std::size_t min_locator_bytes) {
  KERF_RETURN_IF_ERROR(CheckCount(entries.size()));
  std::vector<IndexEntry> result;
  result.reserve(static_cast<std::size_t>(entries.size()));
  for (const v1::IndexEntry& entry : entries) {
    if (entry.locator().size() < min_locator_bytes || entry.locator().size() > kMaxLocatorBytes) {
      return BadField("entries.locator",
                      Cat("has ", entry.locator().size(), " bytes; a locator has ",
                          min_locator_bytes, " to ", kMaxLocatorBytes));
    }
    KERF_ASSIGN_OR_RETURN(const Digest digest, ReadDigest(repository, entry.digest()));
    result.push_back({digest, entry.length_bytes(), entry.locator()});
  }
  return result;
}

// The handlers. A request goes as soon as it is read: while the index is waited for, only what it
// was asked is held.

Task<absl::Status> Stats(AskedIndex asked, std::unique_ptr<v1::GetIndexStatsRequest> request,
                         v1::GetIndexStatsResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_ASSIGN_OR_RETURN(const IndexStats stats,
                           co_await OnPool(asked.pool, asked.index->Stats(repository)));
  response->set_entry_count(stats.entry_count);
  response->set_epoch(stats.epoch);
  response->set_backend(std::string(asked.index->backend_name()));
  co_return absl::OkStatus();
}

Task<absl::Status> Lookup(AskedIndex asked, std::unique_ptr<v1::LookupChunksRequest> request,
                          v1::LookupChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  const std::uint64_t store_epoch = request->store_epoch();
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("store_epoch", store_epoch));
  KERF_CO_RETURN_IF_ERROR(CheckCount(request->digests_size()));
  std::vector<Digest> digests;
  digests.reserve(static_cast<std::size_t>(request->digests_size()));
  for (const std::string& bytes : request->digests()) {
    KERF_CO_ASSIGN_OR_RETURN(const Digest digest, ReadDigest(repository, bytes));
    digests.push_back(digest);
  }
  request = nullptr;
  std::vector<LookupResult> results(digests.size());
  KERF_CO_RETURN_IF_ERROR(
      co_await OnPool(asked.pool, asked.index->Lookup(repository, store_epoch, digests, results)));
  for (std::size_t position = 0; position < results.size(); ++position) {
    v1::LookupAnswer* const answer = response->add_answers();
    answer->set_verdict(static_cast<v1::Verdict>(results[position].verdict));
    if (results[position].verdict == Verdict::kNew) continue;
    answer->mutable_entry()->set_digest(WireDigest(repository, digests[position]));
    answer->mutable_entry()->set_length_bytes(results[position].length_bytes);
    answer->mutable_entry()->set_locator(std::move(results[position].locator));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> Commit(AskedIndex asked, std::unique_ptr<v1::CommitChunksRequest> request,
                          v1::CommitChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  const std::uint64_t store_epoch = request->store_epoch();
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("store_epoch", store_epoch));
  KERF_CO_ASSIGN_OR_RETURN(const std::vector<IndexEntry> entries,
                           ReadEntries(repository, request->entries(), 1));
  for (const IndexEntry& entry : entries) {
    if (entry.length_bytes == 0 || entry.length_bytes > kMaxMaxBytes) {
      co_return BadField(
          "entries.length_bytes",
          Cat("is ", entry.length_bytes, "; a chunk has 1 to ", kMaxMaxBytes, " bytes"));
    }
  }
  request = nullptr;
  asked.record->AskFor(audit::Count::kCommitsAsked, entries.size());
  KERF_CO_RETURN_IF_ERROR(co_await OnPool(
      asked.pool, asked.index->Commit(repository, store_epoch, entries, /*replace=*/true)));
  asked.record->Add(audit::Count::kCommitted, entries.size());
  response->set_entry_count(entries.size());
  co_return absl::OkStatus();
}

Task<absl::Status> Forget(AskedIndex asked, std::unique_ptr<v1::ForgetChunksRequest> request,
                          v1::ForgetChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_ASSIGN_OR_RETURN(const std::vector<IndexEntry> entries,
                           ReadEntries(repository, request->entries(), 0));
  request = nullptr;
  asked.record->AskFor(audit::Count::kForgetsAsked, entries.size());
  KERF_CO_ASSIGN_OR_RETURN(const ForgetResult result,
                           co_await OnPool(asked.pool, asked.index->Forget(repository, entries)));
  asked.record->Add(audit::Count::kForgotten, result.forgotten_count);
  response->set_forgotten_count(result.forgotten_count);
  response->set_epoch(result.epoch);
  response->set_removed_count(result.removed_count);
  co_return absl::OkStatus();
}

Task<absl::Status> ForgetOlder(AskedIndex asked,
                               std::unique_ptr<v1::ForgetOlderChunksRequest> request,
                               v1::ForgetOlderChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("before_epoch", request->before_epoch()));
  if (request->limit() == 0 || request->limit() > kMaxIndexRequestEntries) {
    co_return BadField("limit", Cat("is ", request->limit(), "; 1 to ", kMaxIndexRequestEntries,
                                    " entries are looked at by one call"));
  }
  KERF_CO_ASSIGN_OR_RETURN(const std::optional<Digest> after,
                           ReadAfter(repository, request->after()));
  asked.record->AskFor(audit::Count::kEpoch, request->before_epoch());
  KERF_CO_ASSIGN_OR_RETURN(
      const ForgetOlderResult result,
      co_await OnPool(asked.pool, asked.index->ForgetOlder(repository, request->before_epoch(),
                                                           after, request->limit())));
  asked.record->Add(audit::Count::kForgotten, result.forgotten.forgotten_count);
  response->set_forgotten_count(result.forgotten.forgotten_count);
  response->set_epoch(result.forgotten.epoch);
  response->set_removed_count(result.forgotten.removed_count);
  if (result.last.has_value()) response->set_last(WireDigest(repository, *result.last));
  co_return absl::OkStatus();
}

Task<absl::Status> Scan(AskedIndex asked, std::unique_ptr<v1::ScanChunksRequest> request,
                        v1::ScanChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  if (request->limit() == 0 || request->limit() > kMaxScannedEntries) {
    co_return BadField("limit", Cat("is ", request->limit(), "; one answer has 1 to ",
                                    kMaxScannedEntries, " entries"));
  }
  KERF_CO_ASSIGN_OR_RETURN(const std::optional<Digest> after,
                           ReadAfter(repository, request->after()));
  KERF_CO_ASSIGN_OR_RETURN(
      std::vector<IndexEntry> page,
      co_await OnPool(asked.pool, asked.index->Scan(repository, after, request->limit())));
  for (IndexEntry& entry : page) {
    v1::IndexEntry& added = *response->add_entries();
    added.set_digest(WireDigest(repository, entry.digest));
    added.set_length_bytes(entry.length_bytes);
    added.set_locator(std::move(entry.locator));
  }
  if (!page.empty()) response->set_last(WireDigest(repository, page.back().digest));
  co_return absl::OkStatus();
}

Task<absl::Status> Advance(AskedIndex asked, std::unique_ptr<v1::AdvanceEpochRequest> request,
                           v1::AdvanceEpochResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           ReadRepository(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("store_epoch", request->store_epoch()));
  asked.record->AskFor(audit::Count::kEpoch, request->store_epoch());
  KERF_CO_ASSIGN_OR_RETURN(
      const std::uint64_t previous_epoch,
      co_await OnPool(asked.pool, asked.index->AdvanceEpoch(repository, request->store_epoch(),
                                                            request->min_previous_epoch())));
  asked.record->Add(audit::Count::kPreviousEpoch, previous_epoch);
  response->set_previous_epoch(previous_epoch);
  co_return absl::OkStatus();
}

// Whether the message has no more fields than a request of kMaxIndexRequestEntries entries.
bool HasFewFields(const std::string& bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  for (int count = 0; count <= kMaxIndexRequestEntries + kOtherFields; ++count) {
    const std::uint32_t tag = input.ReadTag();
    // The end, or what the parser will refuse.
    if (tag == 0 || !google::protobuf::internal::WireFormatLite::SkipField(&input, tag)) {
      return true;
    }
  }
  return false;
}

template <typename Request>
absl::Status ParseRequest(const grpc::ByteBuffer& buffer, Request* request) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) {
    return MakeError(Reason::kInternal, "a request whose bytes cannot be read");
  }
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (!HasFewFields(bytes)) return CheckCount(kMaxIndexRequestEntries + 1);
  if (request->ParseFromString(bytes)) return absl::OkStatus();
  return MakeError(Reason::kMalformedMessage,
                   Cat("the bytes are no ", request->GetDescriptor()->full_name()));
}

template <typename Request, typename Response>
using Handler = Task<absl::Status> (*)(AskedIndex, std::unique_ptr<Request>, Response*);

template <typename Request, typename Response>
IndexCalls::Work Answer(AskedIndex asked, grpc::ByteBuffer bytes,
                        Handler<Request, Response> handler) {
  auto request = std::make_unique<Request>();
  KERF_CO_RETURN_IF_ERROR(ParseRequest(bytes, request.get()));
  bytes.Clear();
  const v1::RepositoryRef& repository = request->repository();
  asked.record->SetRepository(repository.repository(), repository.digest_algorithm());
  Response response;
  KERF_CO_RETURN_IF_ERROR(co_await handler(asked, std::move(request), &response));
  const grpc::Slice slice(response.SerializeAsString());
  co_return grpc::ByteBuffer(&slice, 1);
}

// The rest of a service's call: where it comes from, and what it is called.
struct Incoming {
  grpc::CallbackServerContext* context = nullptr;
  const grpc::ByteBuffer* request = nullptr;
  grpc::ByteBuffer* response = nullptr;
  std::string_view method;
  access::Need need = access::Need::kAdmin;
};

template <typename Request, typename Response>
grpc::ServerUnaryReactor* RunOn(IndexCalls& calls, AskedIndex asked, audit::Sink* audit,
                                const Incoming& call, Handler<Request, Response> handler) {
  using Kind = audit::CallRecord::Kind;
  auto record = audit::CallRecord::Begin(
      audit, call.need == access::Need::kRead ? Kind::kRead : Kind::kChange,
      {.method = Cat("kerf.v1.IndexService/", call.method),
       .peer = PeerOf(*call.context),
       .request_id = RequestIdOf(*call.context)});
  access::Identity proven;
  absl::StatusOr<access::Identity> caller = asked.gate->Admit(*call.context, call.need, &proven);
  record->SetCaller(proven.name, NameOf(proven.proof));
  if (!caller.ok()) {
    record->SetOutcome(caller.status());
    return Refuse(*call.context, caller.status());
  }
  asked.caller = *std::move(caller);
  asked.need = call.need;
  asked.record = record;
  // A copy of the buffer has the same bytes, not a copy of them.
  return calls.Run(call.context, call.response, call.request->Length(), std::move(record),
                   Answer(std::move(asked), *call.request, handler));
}

}  // namespace

grpc::ServerUnaryReactor* IndexService::GetIndexStats(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "GetIndexStats", access::Need::kRead}, &Stats);
}

grpc::ServerUnaryReactor* IndexService::LookupChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "LookupChunks", access::Need::kRead}, &Lookup);
}

grpc::ServerUnaryReactor* IndexService::CommitChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "CommitChunks", access::Need::kWrite}, &Commit);
}

grpc::ServerUnaryReactor* IndexService::ForgetChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "ForgetChunks", access::Need::kGc}, &Forget);
}

grpc::ServerUnaryReactor* IndexService::ForgetOlderChunks(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "ForgetOlderChunks", access::Need::kGc}, &ForgetOlder);
}

grpc::ServerUnaryReactor* IndexService::ScanChunks(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "ScanChunks", access::Need::kRead}, &Scan);
}

grpc::ServerUnaryReactor* IndexService::AdvanceEpoch(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunOn(*calls_, asked_, audit_,
               {context, request, response, "AdvanceEpoch", access::Need::kGc}, &Advance);
}

}  // namespace kerf
