// A server, or several, and one repository there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/kerf.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/server_address.h"
#include "client/cpp/server_index.h"
#include "client/store/format/chunk_ref.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::c {

// How a client reaches its servers: what uploads take of it, who may outlive it.
struct Reach {
  std::vector<std::string> servers;
  client::TlsChoice tls;
  std::string repository;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  std::chrono::milliseconds retry_for{};
  std::chrono::milliseconds silence{};
  bool is_direct = false;
  bool shares_memory = true;
  // Whether anybody has met a server yet.
  std::shared_ptr<std::atomic<bool>> reached = std::make_shared<std::atomic<bool>>(false);

  std::size_t digest_size_bytes() const { return DigestSizeBytes(digest_algorithm); }
  // Each try for `patience` at most.
  absl::StatusOr<std::unique_ptr<client::ServerIndex>> OpenIndex(
      std::chrono::milliseconds patience, client::CallCancellation* cancellation) const;
};

// Nothing is known of the algorithm: nothing.
absl::StatusOr<DigestAlgorithm> AlgorithmOf(kerf_digest digest);

// The digest and the place of an entry. KERF_BAD_ARGUMENT if a part of it is missing or too long.
absl::StatusOr<agent::StoredChunk> ReadEntry(const kerf_entry& entry,
                                             std::size_t digest_size_bytes);
absl::StatusOr<std::vector<agent::StoredChunk>> ReadEntries(const kerf_entry* entries,
                                                            std::size_t count,
                                                            std::size_t digest_size_bytes);

// Thread-safe.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Open(const kerf_client_options* options);

  const Reach& reach() const { return reach_; }

  absl::Status Lookup(std::uint64_t epoch, const std::uint8_t* digests, std::size_t count,
                      kerf_lookup_answer* answers, std::uint64_t* index_epoch);
  absl::Status Commit(std::uint64_t epoch, const kerf_entry* entries, std::size_t count);
  void Cancel() { cancellation_.Cancel(); }

 private:
  explicit Client(Reach reach) : reach_(std::move(reach)) {}
  absl::Status OpenIndexLocked();
  absl::Status LookupBatch(std::uint64_t epoch, std::span<const Digest> digests,
                           kerf_lookup_answer* answers, std::uint64_t& index_epoch);
  absl::Status AsOwn(const absl::Status& status) const;

  const Reach reach_;
  client::CallCancellation cancellation_;
  // One call at a time.
  std::mutex mutex_;
  std::unique_ptr<client::ServerIndex> index_;
};

}  // namespace kerf::c

// Of kerf.h.
struct kerf_client {
  std::unique_ptr<kerf::c::Client> inner;
};
