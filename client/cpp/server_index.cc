#include "client/cpp/server_index.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/status.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

absl::Status BadAnswer() {
  return absl::DataLossError(
      "the server's answer does not fit the question: is it a kerfd of another version?");
}

}  // namespace

ServerIndex::ServerIndex(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
                         const std::string& repository, DigestAlgorithm digest_algorithm,
                         CallOptions options)
    : stubs_(channels.size()),
      digest_size_bytes_(DigestSizeBytes(digest_algorithm)),
      calls_(WithOthers(std::move(options))) {
  std::transform(channels.begin(), channels.end(), stubs_.begin(),
                 [](const auto& channel) { return v1::IndexService::NewStub(channel); });
  repository_.set_repository(repository);
  repository_.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(digest_algorithm));
}

CallOptions ServerIndex::WithOthers(CallOptions options) {
  options.others_count = static_cast<int>(stubs_.size()) - 1;
  options.go_elsewhere = [this] { current_ = (current_ + 1) % stubs_.size(); };
  return options;
}

template <typename Request>
void ServerIndex::AddEntries(std::span<const agent::StoredChunk> chunks, Request& request) const {
  for (const agent::StoredChunk& chunk : chunks) {
    v1::IndexEntry& entry = *request.add_entries();
    entry.set_digest(chunk.digest.bytes.data(), digest_size_bytes_);
    entry.set_length_bytes(chunk.length_bytes);
    entry.set_locator(chunk.locator);
  }
}

template <typename Request, typename Response>
absl::Status ServerIndex::Call(grpc::Status (v1::IndexService::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&,
                                                                              Response*),
                               Request& request, Response& response) {
  *request.mutable_repository() = repository_;
  return calls_.Call([&](grpc::ClientContext& context) {
    return (stubs_[current_].get()->*method)(&context, request, &response);
  });
}

absl::StatusOr<ServerIndexStats> ServerIndex::ReadStats() {
  v1::GetIndexStatsRequest request;
  v1::GetIndexStatsResponse response;
  KERF_RETURN_IF_ERROR(Call(&v1::IndexService::Stub::GetIndexStats, request, response));
  ServerIndexStats stats{response.entry_count(), response.epoch(), response.backend()};
  const v1::RepositoryQuota& quota = response.quota();
  if (quota.has_max_entries()) stats.quota.max_entries = quota.max_entries();
  if (quota.has_max_streams()) stats.quota.max_streams = quota.max_streams();
  if (quota.has_max_bytes_per_second()) {
    stats.quota.max_bytes_per_second = quota.max_bytes_per_second();
  }
  if (quota.has_max_calls_per_second()) {
    stats.quota.max_calls_per_second = quota.max_calls_per_second();
  }
  return stats;
}

absl::StatusOr<std::uint64_t> ServerIndex::ReadEpoch() {
  KERF_ASSIGN_OR_RETURN(const ServerIndexStats stats, ReadStats());
  return stats.epoch;
}

absl::StatusOr<std::uint64_t> ServerIndex::AdvanceEpoch(std::uint64_t epoch,
                                                        std::uint64_t min_before) {
  v1::AdvanceEpochRequest request;
  request.set_store_epoch(epoch);
  request.set_min_previous_epoch(min_before);
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    v1::AdvanceEpochResponse response;
    const auto asked = std::chrono::steady_clock::now();
    const absl::Status status = Call(&v1::IndexService::Stub::AdvanceEpoch, request, response);
    if (status.ok()) return response.previous_epoch();
    const auto now = std::chrono::steady_clock::now();
    const bool was_at_work = IsIndexUnavailable(status) && now - asked >= work_time_;
    if (!was_at_work || now - began > calls_.patience()) return status;
  }
}

absl::StatusOr<agent::ForgottenChunks> ServerIndex::Forget(
    std::span<const agent::StoredChunk> chunks) {
  v1::ForgetChunksRequest request;
  AddEntries(chunks, request);
  v1::ForgetChunksResponse response;
  KERF_RETURN_IF_ERROR(Call(&v1::IndexService::Stub::ForgetChunks, request, response));
  return agent::ForgottenChunks{response.forgotten_count(), response.epoch(),
                                response.removed_count()};
}

absl::StatusOr<agent::ForgottenChunks> ServerIndex::ForgetOlder(std::uint64_t epoch) {
  agent::ForgottenChunks all{0, std::numeric_limits<std::uint64_t>::max(), 0};
  v1::ForgetOlderChunksRequest request;
  request.set_before_epoch(epoch);
  request.set_limit(agent::kMaxIndexBatch);
  while (true) {
    v1::ForgetOlderChunksResponse response;
    KERF_RETURN_IF_ERROR(Call(&v1::IndexService::Stub::ForgetOlderChunks, request, response));
    all.Add({response.forgotten_count(), response.epoch(), response.removed_count()});
    if (response.last().empty()) return all;
    if (response.last() <= request.after()) {
      return absl::DataLossError("the server's index is gone through in circles");
    }
    request.set_after(response.last());
  }
}

absl::Status ServerIndex::Commit(std::uint64_t epoch, std::span<const agent::StoredChunk> chunks) {
  v1::CommitChunksRequest request;
  request.set_store_epoch(epoch);
  AddEntries(chunks, request);
  v1::CommitChunksResponse response;
  absl::Status status = Call(&v1::IndexService::Stub::CommitChunks, request, response);
  if (!accepts_full_ || !IsQuotaExceeded(status) || AskedWaitOf(status).count() > 0) return status;
  full_status_.Update(status);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<agent::IndexAnswer>> ServerIndex::Lookup(
    std::uint64_t epoch, std::span<const Digest> digests) {
  std::vector<agent::IndexAnswer> answers;
  looked_up_epoch_ = 0;
  if (digests.empty()) return answers;
  v1::LookupChunksRequest request;
  request.set_store_epoch(epoch);
  for (const Digest& digest : digests) {
    request.add_digests(digest.bytes.data(), digest_size_bytes_);
  }
  v1::LookupChunksResponse response;
  KERF_RETURN_IF_ERROR(Call(&v1::IndexService::Stub::LookupChunks, request, response));
  if (response.answers_size() != request.digests_size()) return BadAnswer();
  looked_up_epoch_ = response.index_epoch();
  answers.reserve(digests.size());
  for (v1::LookupAnswer& answer : *response.mutable_answers()) {
    switch (answer.verdict()) {
      case v1::VERDICT_NEW:
      case v1::VERDICT_DUPLICATE:
      case v1::VERDICT_UNVERIFIED:
        answers.push_back({static_cast<agent::IndexVerdict>(answer.verdict()),
                           answer.entry().length_bytes(),
                           std::move(*answer.mutable_entry()->mutable_locator())});
        break;
      default:
        return BadAnswer();
    }
  }
  return answers;
}

absl::StatusOr<std::vector<agent::StoredChunk>> ServerIndex::ScanPage(
    const std::optional<Digest>& after) {
  v1::ScanChunksRequest request;
  if (after.has_value()) request.set_after(after->bytes.data(), digest_size_bytes_);
  request.set_limit(agent::kMaxIndexBatch);
  v1::ScanChunksResponse response;
  KERF_RETURN_IF_ERROR(Call(&v1::IndexService::Stub::ScanChunks, request, response));
  if (static_cast<std::size_t>(response.entries_size()) > agent::kMaxIndexBatch) return BadAnswer();
  std::vector<agent::StoredChunk> page;
  page.reserve(static_cast<std::size_t>(response.entries_size()));
  std::optional<Digest> before = after;
  for (v1::IndexEntry& entry : *response.mutable_entries()) {
    if (entry.digest().size() != digest_size_bytes_) return BadAnswer();
    Digest digest;
    std::memcpy(digest.bytes.data(), entry.digest().data(), digest_size_bytes_);
    // Else it would never end.
    if (before.has_value() && !(*before < digest)) return BadAnswer();
    before = digest;
    page.push_back({digest, entry.length_bytes(), std::move(*entry.mutable_locator())});
  }
  return page;
}

}  // namespace kerf::client
