#include "server/edge/index_service.h"

#include <algorithm>
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
#include "server/edge/epoch_pace.h"
#include "server/edge/index_request.h"
#include "server/edge/on_pool.h"
#include "server/errors/errors.h"
#include "server/index/rules.h"

namespace kerf {
namespace {

constexpr std::size_t kMaxDigestBytes = sizeof(Digest::bytes);
// Of one entry in an answer: digest, length and locator, each with its tag and length, inside a
// field with its own.
constexpr std::size_t kMaxEncodedEntryBytes =
    2 + (2 + kMaxDigestBytes) + (1 + 5) + (2 + kMaxLocatorBytes);
static_assert(kMaxScannedEntries * kMaxEncodedEntryBytes + 2 + kMaxDigestBytes <=
              limits::kMaxAnswerBytes);

// How far it may be ahead of the index is for that to say.
absl::Status CheckEpoch(std::string_view field, std::uint64_t epoch) {
  if (epoch == 0) return BadField(field, "a store's first epoch is 1, not 0");
  if (epoch <= index_rules::kMaxEpoch) return absl::OkStatus();
  return BadField(field, Cat("is ", epoch, "; no store counts beyond ", index_rules::kMaxEpoch));
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

// The repository of a request that begins none, if the caller may use it.
Task<absl::StatusOr<RepositoryId>> ReadKnown(const AskedIndex& asked,
                                             const v1::RepositoryRef& ref) {
  KERF_CO_ASSIGN_OR_RETURN(RepositoryId repository, ReadRepository(asked, ref));
  if (asked.repositories != nullptr) {
    KERF_CO_RETURN_IF_ERROR(
        co_await OnPool(asked.pool, asked.repositories->CheckToLook(repository)));
  }
  co_return repository;
}

// The same of one that may begin it.
Task<absl::StatusOr<RepositoryId>> ReadToWrite(const AskedIndex& asked,
                                               const v1::RepositoryRef& ref) {
  KERF_CO_ASSIGN_OR_RETURN(RepositoryId repository, ReadRepository(asked, ref));
  if (asked.repositories != nullptr) {
    KERF_CO_RETURN_IF_ERROR(co_await OnPool(asked.pool, asked.repositories->Check(repository)));
  }
  co_return repository;
}

void ShowQuota(const access::Quota& quota, v1::GetIndexStatsResponse& response) {
  if (quota == access::Quota()) return;
  v1::RepositoryQuota& shown = *response.mutable_quota();
  if (quota.max_entries) shown.set_max_entries(*quota.max_entries);
  if (quota.max_streams) shown.set_max_streams(*quota.max_streams);
  if (quota.max_bytes_per_second) shown.set_max_bytes_per_second(*quota.max_bytes_per_second);
  if (quota.max_calls_per_second) shown.set_max_calls_per_second(*quota.max_calls_per_second);
}

// The handlers. A request goes as soon as it is read: while the index is waited for, only what it
// was asked is held.

Task<absl::Status> Stats(AskedIndex asked, std::unique_ptr<v1::GetIndexStatsRequest> request,
                         v1::GetIndexStatsResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           co_await ReadKnown(asked, request->repository()));
  KERF_CO_ASSIGN_OR_RETURN(const IndexStats stats,
                           co_await OnPool(asked.pool, asked.index->Stats(repository)));
  response->set_entry_count(stats.entry_count);
  response->set_epoch(stats.epoch);
  response->set_backend(std::string(asked.index->backend_name()));
  ShowQuota(asked.gate->QuotaOfRepository(repository.name), *response);
  co_return absl::OkStatus();
}

Task<absl::Status> Lookup(AskedIndex asked, std::unique_ptr<v1::LookupChunksRequest> request,
                          v1::LookupChunksResponse* response) {
  KERF_CO_ASSIGN_OR_RETURN(const RepositoryId repository,
                           co_await ReadKnown(asked, request->repository()));
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
    response->set_index_epoch(
        std::max(response->index_epoch(), results[position].repository_epoch));
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
                           co_await ReadToWrite(asked, request->repository()));
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
                           co_await ReadKnown(asked, request->repository()));
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
                           co_await ReadKnown(asked, request->repository()));
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("before_epoch", request->before_epoch()));
  KERF_CO_RETURN_IF_ERROR(CheckLimit(request->limit()));
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
                           co_await ReadKnown(asked, request->repository()));
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
                           co_await ReadToWrite(asked, request->repository()));
  const std::uint64_t store_epoch = request->store_epoch();
  KERF_CO_RETURN_IF_ERROR(CheckEpoch("store_epoch", store_epoch));
  KERF_CO_RETURN_IF_ERROR(asked.pace->Admit(repository));
  asked.record->AskFor(audit::Count::kEpoch, store_epoch);
  const EpochRaises::Answer answer = co_await OnPool(
      asked.pool, asked.raises->Advance(repository, store_epoch, request->min_previous_epoch()));
  KERF_CO_ASSIGN_OR_RETURN(const std::uint64_t previous_epoch, answer.previous_epoch);
  asked.record->Add(audit::Count::kPreviousEpoch, previous_epoch);
  if (!answer.is_joined && previous_epoch >= request->min_previous_epoch()) {
    asked.pace->Count(repository, previous_epoch, store_epoch);
  }
  response->set_previous_epoch(previous_epoch);
  co_return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* IndexService::GetIndexStats(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/GetIndexStats", access::Need::kRead},
      &Stats);
}

grpc::ServerUnaryReactor* IndexService::LookupChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/LookupChunks", access::Need::kRead},
      &Lookup);
}

grpc::ServerUnaryReactor* IndexService::CommitChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/CommitChunks", access::Need::kWrite},
      &Commit);
}

grpc::ServerUnaryReactor* IndexService::ForgetChunks(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/ForgetChunks", access::Need::kGc},
      &Forget);
}

grpc::ServerUnaryReactor* IndexService::ForgetOlderChunks(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/ForgetOlderChunks", access::Need::kGc},
      &ForgetOlder);
}

grpc::ServerUnaryReactor* IndexService::ScanChunks(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/ScanChunks", access::Need::kRead}, &Scan);
}

grpc::ServerUnaryReactor* IndexService::AdvanceEpoch(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request,
                                                     grpc::ByteBuffer* response) {
  return RunIndexCall(
      *calls_, asked_,
      {context, request, response, "kerf.v1.IndexService/AdvanceEpoch", access::Need::kGc},
      &Advance);
}

}  // namespace kerf
