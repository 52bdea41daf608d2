// The state of one Upload stream, without bytes, clocks, threads or I/O: which frames may come
// next, what has been answered, what is committed, and from where a broken upload goes on. Whoever
// drives it cuts, hashes and asks the index. docs/spec/protocol.md is its specification.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/upload_profile.h"
#include "server/index/index.h"
#include "server/session/digest_hash.h"
#include "server/session/session_limits.h"

namespace kerf {

inline constexpr std::size_t kMaxFileKeyBytes = 4096;
inline constexpr std::size_t kMaxAgentBytes = 128;
// Offsets and sizes stay representable as signed 64-bit numbers everywhere.
inline constexpr std::uint64_t kMaxFileBytes = (std::uint64_t{1} << 63) - 1;

using ContentHash = std::array<std::uint8_t, 16>;

// What Open fixes for the life of the stream.
struct SessionParameters {
  RepositoryId repository;
  UploadProfile profile;
  std::uint64_t store_epoch = 0;
};

// A chunk that is about to be answered.
struct JudgedChunk {
  std::uint64_t file_number = 0;
  // Behind the chunk, in the file.
  std::uint64_t end_offset = 0;
  std::uint32_t length_bytes = 0;
  Digest digest;
  Verdict verdict = Verdict::kNew;
  // LookupResult::absent_at.
  std::uint64_t absent_at = 0;
};

// What the client is told of the limits.
void FillLimits(const SessionLimits& limits, v1::Limits* told);

// What a Commit asks for.
struct CommitPlan {
  // To be written. An entry whose length the session does not know (reported stale, and not in the
  // index) is not among them.
  std::vector<IndexEntry> entries;
  // Neither pending nor reported stale. If the index holds them all, an earlier Commit, of this or
  // another stream, was faster, and nothing is to be done; else the Commit is refused.
  std::vector<Digest> others;
};

// Not thread-safe. Errors are statuses of server/errors; after one the stream ends and the session
// is of no further use. Memory is bounded by the limits.
class Session {
 public:
  explicit Session(const SessionLimits& limits) : limits_(limits) {}

  absl::Status Open(const v1::Open& open);
  bool is_open() const { return is_open_; }
  // Once open.
  const SessionParameters& parameters() const { return parameters_; }

  // Once open and before the first file: ChunkDigests come in place of Data.
  void LetClientCut() { client_cuts_ = true; }
  bool client_cuts() const { return client_cuts_; }
  // The same: SharedData may come, beside Data.
  void LetShareData() { shares_data_ = true; }
  bool shares_data() const { return shares_data_; }

  // FRAME_ORDER for a frame that may not come now.
  absl::Status BeginFile(const v1::FileBegin& begin);
  absl::Status AddData(std::uint64_t data_bytes);
  // The same of bytes that lie in memory which the client shares.
  absl::Status AddSharedData(std::uint64_t data_bytes);
  // Checks the chunks that the client names as a whole, and counts their bytes as AddData would.
  // All that it knows of a chunk is what it is told: that it may be one of the profile's.
  absl::Status AddDigests(const v1::ChunkDigests& named);
  // `arrived_hash` is of the data that AddData has counted since BeginFile. Call it after the
  // file's last byte was counted; its chunks may be answered later.
  absl::Status EndFile(const v1::FileEnd& end, const ContentHash& arrived_hash);
  bool in_file() const { return in_file_; }
  // The file that was begun last, from 1.
  std::uint64_t file_number() const { return file_number_; }
  // Behind the last byte of the file that was begun last.
  std::uint64_t received_offset() const { return received_offset_; }

  // Chunks must come in stream order and without gap (that is the caller's duty, and checked).
  // TOO_MANY_UNCOMMITTED_CHUNKS.
  absl::Status AddChunk(const JudgedChunk& chunk);

  // Checks a Commit as a whole and says what to do; changes nothing.
  absl::StatusOr<CommitPlan> PlanCommit(const v1::Commit& commit) const;
  // The error for one of CommitPlan::others that the index does not hold.
  absl::Status UnknownDigest(const Digest& digest) const;
  // Once `held_count` entries of it are in the index: resolves all pending chunks of its digests.
  // The answer lists the files whose durable offset moved.
  v1::Committed ApplyCommit(const v1::Commit& commit, std::size_t held_count);

  // Checks a ReportStale as a whole and says what to look up and then to forget.
  absl::StatusOr<std::vector<IndexEntry>> PlanStale(const v1::ReportStale& report) const;
  // From now on a Commit may name `digest`. length_bytes is 0 if the index did not know it.
  absl::Status AddStale(const Digest& digest, std::uint32_t length_bytes);

  // Files that became complete since the last call, in the order in which they did.
  std::vector<v1::FileDone> TakeDone();
  bool has_done() const { return !done_.empty(); }

  // From here on data and file frames are dropped; Commit and ReportStale are still taken. Files
  // with a resume point behind their start offset are listed.
  v1::GoAway BeginDrain(std::uint32_t drain_ms);
  bool is_draining() const { return is_draining_; }

  // Whether the client may end the stream here: OK, UNFINISHED_FILE, FRAME_ORDER or DRAINING.
  absl::Status HalfClose() const;

  std::size_t uncommitted_chunk_count() const { return pending_count_; }
  std::size_t uncommitted_file_count() const { return files_.size(); }
  // An estimate from above of what the tables hold.
  std::size_t memory_bytes() const;

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kNoSlot = UINT32_MAX;

  // A chunk that was answered NEW or UNVERIFIED and is not committed. Linked twice: with its
  // neighbours in its file, in stream order, and with the other pending chunks of its digest.
  struct Pending {
    Digest digest;
    std::uint64_t file_number = 0;
    std::uint64_t begin_offset = 0;
    std::uint64_t absent_at = 0;
    std::uint32_t length_bytes = 0;
    Slot previous_in_file = kNoSlot;
    Slot next_in_file = kNoSlot;
    Slot next_of_digest = kNoSlot;
  };

  struct File {
    std::uint64_t start_offset = 0;
    // Behind the last chunk that was answered.
    std::uint64_t answered_offset = 0;
    // The last durable offset that the client was told, at first start_offset.
    std::uint64_t told_offset = 0;
    // Once ended.
    std::uint64_t size_bytes = 0;
    bool has_ended = false;
    Slot first_pending = kNoSlot;
    Slot last_pending = kNoSlot;
    std::uint64_t chunk_count = 0;
    std::uint64_t new_chunk_count = 0;
    std::uint64_t new_bytes = 0;
  };

  absl::Status RequireOpen(std::string_view frame) const;
  absl::Status CheckMayBring(std::string_view frame, bool is_of_client_who_cuts) const;
  absl::Status CheckLengths(const v1::ChunkDigests& named) const;
  absl::StatusOr<Digest> ReadDigest(std::string_view field, const std::string& bytes) const;
  absl::Status CheckEntryCount(std::string_view frame, int entry_count) const;
  absl::Status CheckEntry(std::string_view field, const v1::CommitEntry& entry) const;
  // Behind the longest prefix of the file whose chunks are resolved.
  std::uint64_t DurableOffset(const File& file) const;
  void Link(Slot slot, File& file);
  // Removes the pending chunk from its file.
  void Unlink(Slot slot, File& file);
  // Moves a complete file from files_ to done_.
  void FinishIfComplete(std::uint64_t number);

  const SessionLimits limits_;
  SessionParameters parameters_;
  bool is_open_ = false;
  bool in_file_ = false;
  bool is_draining_ = false;
  bool client_cuts_ = false;
  bool shares_data_ = false;
  // The client has named a chunk of the file that only its end allows.
  bool has_short_chunk_ = false;
  std::uint64_t file_number_ = 0;
  std::uint64_t received_offset_ = 0;
  absl::flat_hash_map<std::uint64_t, File> files_;
  std::vector<Pending> slots_;
  Slot free_slot_ = kNoSlot;
  std::size_t pending_count_ = 0;
  absl::flat_hash_map<Digest, Slot, SeededDigestHash> pending_by_digest_;
  // Reported stale and not committed since: the chunk's length.
  absl::flat_hash_map<Digest, std::uint32_t, SeededDigestHash> stale_;
  std::vector<v1::FileDone> done_;
};

}  // namespace kerf
