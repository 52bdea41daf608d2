// A store's index behind a kerfd, over the Index service.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/patient_call.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/index/collection_index.h"
#include "client/store/index/readable_index.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/index.grpc.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::client {

// What a repository may have; nothing: no bound, or the server knows of none.
struct ServerQuota {
  std::optional<std::uint64_t> max_entries = std::nullopt;
  // At the worker that was asked.
  std::optional<std::uint64_t> max_streams = std::nullopt;
  std::optional<std::uint64_t> max_bytes_per_second = std::nullopt;
  std::optional<std::uint64_t> max_calls_per_second = std::nullopt;
};

struct ServerIndexStats {
  // An estimate where the index cannot count cheaply.
  std::uint64_t entry_count = 0;
  std::uint64_t epoch = 0;
  std::string backend;
  ServerQuota quota = {};
};

// Each call has a deadline of a minute, and ends with the server's error. What the server answers
// is checked: DataLoss if it cannot be an answer to what was asked.
class ServerIndex final : public agent::CollectionIndex, public agent::ReadableIndex {
 public:
  // Of the repository, that is the store's id. Each call is made as PatientCalls makes it.
  ServerIndex(const std::shared_ptr<grpc::Channel>& channel, const std::string& repository,
              DigestAlgorithm digest_algorithm, CallOptions options = {})
      : ServerIndex(std::vector{channel}, repository, digest_algorithm, std::move(options)) {}
  // At the first of several servers, of which each is as good as the others, and where that is away
  // or has no index at the next.
  ServerIndex(const std::vector<std::shared_ptr<grpc::Channel>>& channels,
              const std::string& repository, DigestAlgorithm digest_algorithm,
              CallOptions options = {});
  ServerIndex(const ServerIndex&) = delete;
  ServerIndex& operator=(const ServerIndex&) = delete;

  // From here on Commit takes it for done that a repository which is full (QUOTA_EXCEEDED) has
  // written what it had, and no more: for those who tell the index of all that there is.
  void AcceptFull() { accepts_full_ = true; }
  // The first time that it was so; OK: never.
  const absl::Status& full_status() const { return full_status_; }

  absl::StatusOr<ServerIndexStats> ReadStats();

  absl::StatusOr<std::uint64_t> ReadEpoch() override;

  // A large index may not take an epoch in the time that the server has for a call, and then has
  // taken part of it: one that was at work for `work_time` before it failed is asked again, for as
  // long as `patience` lasts, and goes on where it was.
  absl::StatusOr<std::uint64_t> AdvanceEpoch(std::uint64_t epoch,
                                             std::uint64_t min_before) override;
  // For tests.
  void SetWorkTime(std::chrono::milliseconds time) { work_time_ = time; }
  absl::StatusOr<agent::ForgottenChunks> Forget(
      std::span<const agent::StoredChunk> chunks) override;
  absl::StatusOr<agent::ForgottenChunks> ForgetOlder(std::uint64_t epoch) override;
  absl::Status Commit(std::uint64_t epoch, std::span<const agent::StoredChunk> chunks) override;

  absl::StatusOr<std::vector<agent::IndexAnswer>> Lookup(std::uint64_t epoch,
                                                         std::span<const Digest> digests) override;
  // What the last Lookup was told of the repository's epoch, 0: nothing (PRO-91).
  std::uint64_t looked_up_epoch() const { return looked_up_epoch_; }
  absl::StatusOr<std::vector<agent::StoredChunk>> ScanPage(
      const std::optional<Digest>& after) override;

 private:
  template <typename Request>
  void AddEntries(std::span<const agent::StoredChunk> chunks, Request& request) const;
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::IndexService::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                    Request& request, Response& response);

  CallOptions WithOthers(CallOptions options);

  std::vector<std::unique_ptr<v1::IndexService::Stub>> stubs_;
  // Which of them is asked.
  std::size_t current_ = 0;
  const std::size_t digest_size_bytes_;
  PatientCalls calls_;
  std::chrono::milliseconds work_time_{1'000};
  bool accepts_full_ = false;
  absl::Status full_status_;
  std::uint64_t looked_up_epoch_ = 0;
  v1::RepositoryRef repository_;
};

}  // namespace kerf::client
