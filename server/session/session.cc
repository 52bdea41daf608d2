#include "server/session/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/index/rules.h"
#include "server/session/features.h"

namespace kerf {
namespace {

absl::Status BadField(std::string_view field, std::string_view what) {
  return MakeError(Reason::kBadField, Cat(field, ": ", what), {{"field", std::string(field)}});
}

bool IsFeatureName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFeatureBytes &&
         std::all_of(name.begin(), name.end(), [](char character) {
           return (character >= 'a' && character <= 'z') ||
                  (character >= '0' && character <= '9') || character == '-';
         });
}

// Names that the server does not know are those of later clients.
absl::Status CheckFeatures(const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (static_cast<std::size_t>(names.size()) > kMaxFeatures) {
    return BadField("open.features",
                    Cat("has ", names.size(), " names; at most ", kMaxFeatures, " are taken"));
  }
  if (std::all_of(names.begin(), names.end(), IsFeatureName)) return absl::OkStatus();
  return BadField("open.features",
                  Cat("a name has 1 to ", kMaxFeatureBytes, " of [a-z0-9-], and one has not"));
}

absl::StatusOr<DigestAlgorithm> ReadAlgorithm(v1::DigestAlgorithm algorithm) {
  switch (algorithm) {
    case v1::DIGEST_ALGORITHM_BLAKE3:
      return DigestAlgorithm::kBlake3;
    case v1::DIGEST_ALGORITHM_SHA256:
      return DigestAlgorithm::kSha256;
    case v1::DIGEST_ALGORITHM_XXH3_128:
      return DigestAlgorithm::kXxh3_128;
    default:
      return BadField("open.digest_algorithm",
                      Cat("unknown algorithm ", static_cast<int>(algorithm)));
  }
}

}  // namespace

void FillLimits(const SessionLimits& limits, v1::Limits* told) {
  told->set_max_message_bytes(limits.max_message_bytes);
  told->set_max_uncommitted_chunks(limits.max_uncommitted_chunks);
  told->set_max_uncommitted_files(limits.max_uncommitted_files);
  told->set_max_commit_entries(limits.max_commit_entries);
}

absl::Status Session::Open(const v1::Open& open) {
  if (is_open_) {
    return MakeError(Reason::kFrameOrder, "Open may only be the first frame of a stream");
  }
  if (absl::Status status = ValidateRepositoryName(open.repository()); !status.ok()) {
    return BadField("open.repository", MessageOf(status));
  }
  parameters_.repository.name = open.repository();
  absl::StatusOr<UploadProfile> profile = ParseUploadProfile(open.profile());
  if (!profile.ok()) return BadField("open.profile", MessageOf(profile.status()));
  parameters_.profile = *profile;
  KERF_ASSIGN_OR_RETURN(parameters_.repository.digest_algorithm,
                        ReadAlgorithm(open.digest_algorithm()));
  if (open.store_epoch() == 0) {
    return BadField("open.store_epoch", "a store's first epoch is 1, not 0");
  }
  // How far it may be ahead of the index is for that to say, at the first question.
  if (open.store_epoch() > index_rules::kMaxEpoch) {
    return BadField("open.store_epoch", Cat("is ", open.store_epoch(), "; no store counts beyond ",
                                            index_rules::kMaxEpoch));
  }
  parameters_.store_epoch = open.store_epoch();
  if (open.agent().size() > kMaxAgentBytes) {
    return BadField("open.agent", Cat("has ", open.agent().size(), " bytes; at most ",
                                      kMaxAgentBytes, " are taken"));
  }
  KERF_RETURN_IF_ERROR(CheckFeatures(open.features()));
  is_open_ = true;
  return absl::OkStatus();
}

absl::Status Session::RequireOpen(std::string_view frame) const {
  if (is_open_) return absl::OkStatus();
  return MakeError(Reason::kFrameOrder,
                   Cat(frame, " before Open: the first frame of a stream is Open"));
}

absl::Status Session::BeginFile(const v1::FileBegin& begin) {
  KERF_RETURN_IF_ERROR(RequireOpen("FileBegin"));
  if (in_file_) {
    return MakeError(Reason::kFrameOrder,
                     Cat("FileBegin inside file ", file_number_, ": end that one first"));
  }
  if (begin.file_key().size() > kMaxFileKeyBytes) {
    return BadField("file_begin.file_key", Cat("has ", begin.file_key().size(), " bytes; at most ",
                                               kMaxFileKeyBytes, " are taken"));
  }
  if (begin.start_offset() > kMaxFileBytes) {
    return MakeError(Reason::kOffsetTooLarge,
                     Cat("file_begin.start_offset ", begin.start_offset(), " is above 2^63-1"));
  }
  if (files_.size() >= limits_.max_uncommitted_files) {
    return MakeError(Reason::kTooManyUncommittedFiles,
                     Cat("more than ", limits_.max_uncommitted_files,
                         " files without FileDone: commit before sending more"),
                     {{"limit", Cat(limits_.max_uncommitted_files)}});
  }
  in_file_ = true;
  has_short_chunk_ = false;
  ++file_number_;
  received_offset_ = begin.start_offset();
  File& file = files_[file_number_];
  file.start_offset = file.answered_offset = file.told_offset = begin.start_offset();
  return absl::OkStatus();
}

absl::Status Session::CheckMayBring(std::string_view frame, bool is_of_client_who_cuts) const {
  KERF_RETURN_IF_ERROR(RequireOpen(frame));
  if (!in_file_) {
    return MakeError(Reason::kFrameOrder, Cat(frame, " outside a file: FileBegin comes first"));
  }
  if (is_of_client_who_cuts == client_cuts_) return absl::OkStatus();
  return MakeError(Reason::kFrameOrder,
                   client_cuts_
                       ? Cat(frame, " on a stream whose client cuts: it sends ChunkDigests")
                       : Cat(frame,
                             " on a stream that the server cuts: Opened.cutter is "
                             "not CUTTER_CLIENT, so the client sends Data"));
}

absl::Status Session::AddData(std::uint64_t data_bytes) {
  KERF_RETURN_IF_ERROR(CheckMayBring("Data", false));
  if (data_bytes > kMaxFileBytes - received_offset_) {
    return MakeError(Reason::kOffsetTooLarge, Cat("file ", file_number_, " passes 2^63-1 bytes"));
  }
  received_offset_ += data_bytes;
  return absl::OkStatus();
}

absl::Status Session::AddSharedData(std::uint64_t data_bytes) {
  KERF_RETURN_IF_ERROR(CheckMayBring("SharedData", false));
  if (!shares_data_) {
    return MakeError(
        Reason::kFrameOrder,
        "SharedData on a stream that has no shared memory: Opened.takes_shared_data is "
        "not set, so the client sends Data");
  }
  return AddData(data_bytes);
}

absl::Status Session::CheckLengths(const v1::ChunkDigests& named) const {
  const Profile& rule = parameters_.profile.rule;
  bool is_behind_short = has_short_chunk_;
  for (const std::uint32_t length_bytes : named.lengths_bytes()) {
    if (length_bytes == 0 || length_bytes > rule.max_bytes) {
      return BadField(
          "chunk_digests.lengths_bytes",
          Cat("a chunk of ", length_bytes, " bytes; the profile's have 1 to ", rule.max_bytes));
    }
    if (is_behind_short) {
      return BadField("chunk_digests.lengths_bytes",
                      Cat("a chunk behind one of fewer than ", rule.min_bytes,
                          " bytes, which the profile cuts at the end of a file only"));
    }
    is_behind_short = length_bytes < rule.min_bytes;
  }
  return absl::OkStatus();
}

absl::Status Session::AddDigests(const v1::ChunkDigests& named) {
  KERF_RETURN_IF_ERROR(CheckMayBring("ChunkDigests", true));
  KERF_RETURN_IF_ERROR(CheckEntryCount("ChunkDigests", named.lengths_bytes_size()));
  if (named.lengths_bytes().empty()) {
    return BadField("chunk_digests.lengths_bytes", "is empty: a frame names one chunk at least");
  }
  const std::size_t digest_bytes = DigestSizeBytes(parameters_.repository.digest_algorithm);
  const std::size_t wanted_bytes =
      static_cast<std::size_t>(named.lengths_bytes_size()) * digest_bytes;
  if (named.digests().size() != wanted_bytes) {
    return BadField("chunk_digests.digests",
                    Cat("has ", named.digests().size(), " bytes; ", named.lengths_bytes_size(),
                        " digests of ", digest_bytes, " bytes have ", wanted_bytes));
  }
  KERF_RETURN_IF_ERROR(CheckLengths(named));
  std::uint64_t named_bytes = 0;
  for (const std::uint32_t length_bytes : named.lengths_bytes()) named_bytes += length_bytes;
  if (named_bytes > kMaxFileBytes - received_offset_) {
    return MakeError(Reason::kOffsetTooLarge, Cat("file ", file_number_, " passes 2^63-1 bytes"));
  }
  has_short_chunk_ = *named.lengths_bytes().rbegin() < parameters_.profile.rule.min_bytes;
  received_offset_ += named_bytes;
  return absl::OkStatus();
}

absl::Status Session::EndFile(const v1::FileEnd& end, const ContentHash& arrived_hash) {
  KERF_RETURN_IF_ERROR(RequireOpen("FileEnd"));
  if (!in_file_) {
    return MakeError(Reason::kFrameOrder, "FileEnd outside a file: FileBegin comes first");
  }
  if (end.content_hash().size() != arrived_hash.size()) {
    return BadField("file_end.content_hash",
                    Cat("has ", end.content_hash().size(), " bytes; XXH3-128 has 16"));
  }
  if (end.size_bytes() != received_offset_) {
    return MakeError(Reason::kSizeMismatch,
                     Cat("FileEnd of file ", file_number_, " says ", end.size_bytes(),
                         " bytes, but start offset and data make ", received_offset_),
                     {{"file_number", Cat(file_number_)}});
  }
  if (std::memcmp(end.content_hash().data(), arrived_hash.data(), arrived_hash.size()) != 0) {
    return MakeError(Reason::kContentMismatch,
                     Cat("the data of file ", file_number_,
                         " is not what the client hashed: it changed on the way; send it again "
                         "from its last durable offset"),
                     {{"file_number", Cat(file_number_)}});
  }
  in_file_ = false;
  File& file = files_.find(file_number_)->second;
  file.has_ended = true;
  file.size_bytes = end.size_bytes();
  FinishIfComplete(file_number_);
  return absl::OkStatus();
}

absl::Status Session::AddChunk(const JudgedChunk& chunk) {
  const auto found = files_.find(chunk.file_number);
  KERF_CHECK(found != files_.end());
  File& file = found->second;
  KERF_CHECK(chunk.length_bytes > 0);
  KERF_CHECK(chunk.end_offset == file.answered_offset + chunk.length_bytes);
  if (chunk.verdict != Verdict::kDuplicate) {
    if (pending_count_ >= limits_.max_uncommitted_chunks) {
      return MakeError(Reason::kTooManyUncommittedChunks,
                       Cat("more than ", limits_.max_uncommitted_chunks,
                           " chunks are not committed: commit before sending more"),
                       {{"limit", Cat(limits_.max_uncommitted_chunks)}});
    }
    Slot slot = free_slot_;
    if (slot == kNoSlot) {
      slot = static_cast<Slot>(slots_.size());
      slots_.emplace_back();
    } else {
      free_slot_ = slots_[slot].next_of_digest;
    }
    Pending& pending = slots_[slot];
    pending.digest = chunk.digest;
    pending.file_number = chunk.file_number;
    pending.begin_offset = file.answered_offset;
    pending.length_bytes = chunk.length_bytes;
    pending.absent_at = chunk.absent_at;
    Link(slot, file);
    ++pending_count_;
    ++file.new_chunk_count;
    file.new_bytes += chunk.length_bytes;
  }
  ++file.chunk_count;
  file.answered_offset = chunk.end_offset;
  FinishIfComplete(chunk.file_number);
  return absl::OkStatus();
}

void Session::Link(Slot slot, File& file) {
  Pending& pending = slots_[slot];
  pending.next_in_file = kNoSlot;
  pending.previous_in_file = file.last_pending;
  if (file.last_pending == kNoSlot) {
    file.first_pending = slot;
  } else {
    slots_[file.last_pending].next_in_file = slot;
  }
  file.last_pending = slot;
  const auto [entry, inserted] = pending_by_digest_.try_emplace(pending.digest, slot);
  pending.next_of_digest = inserted ? kNoSlot : std::exchange(entry->second, slot);
}

void Session::Unlink(Slot slot, File& file) {
  const Pending& pending = slots_[slot];
  if (pending.previous_in_file == kNoSlot) {
    file.first_pending = pending.next_in_file;
  } else {
    slots_[pending.previous_in_file].next_in_file = pending.next_in_file;
  }
  if (pending.next_in_file == kNoSlot) {
    file.last_pending = pending.previous_in_file;
  } else {
    slots_[pending.next_in_file].previous_in_file = pending.previous_in_file;
  }
}

std::uint64_t Session::DurableOffset(const File& file) const {
  return file.first_pending == kNoSlot ? file.answered_offset
                                       : slots_[file.first_pending].begin_offset;
}

void Session::FinishIfComplete(std::uint64_t number) {
  const auto found = files_.find(number);
  const File& file = found->second;
  if (!file.has_ended || file.first_pending != kNoSlot || file.answered_offset != file.size_bytes) {
    return;
  }
  v1::FileDone& done = done_.emplace_back();
  done.set_file_number(number);
  done.set_size_bytes(file.size_bytes);
  done.set_chunk_count(file.chunk_count);
  done.set_new_chunk_count(file.new_chunk_count);
  done.set_new_bytes(file.new_bytes);
  files_.erase(found);
}

absl::StatusOr<Digest> Session::ReadDigest(std::string_view field, const std::string& bytes) const {
  const std::size_t size_bytes = DigestSizeBytes(parameters_.repository.digest_algorithm);
  if (bytes.size() != size_bytes) {
    return BadField(field,
                    Cat("has ", bytes.size(), " bytes; a digest of this stream has ", size_bytes));
  }
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), size_bytes);
  return digest;
}

absl::Status Session::CheckEntryCount(std::string_view frame, int entry_count) const {
  if (static_cast<std::uint32_t>(entry_count) <= limits_.max_commit_entries) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kTooManyEntries,
                   Cat(frame, " with ", entry_count, " entries; at most ",
                       limits_.max_commit_entries, " fit in one"),
                   {{"limit", Cat(limits_.max_commit_entries)}});
}

absl::Status Session::CheckEntry(std::string_view field, const v1::CommitEntry& entry) const {
  if (entry.locator().empty() || entry.locator().size() > kMaxLocatorBytes) {
    return BadField(field, Cat("has ", entry.locator().size(), " bytes; a locator has 1 to ",
                               kMaxLocatorBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<CommitPlan> Session::PlanCommit(const v1::Commit& commit) const {
  KERF_RETURN_IF_ERROR(RequireOpen("Commit"));
  KERF_RETURN_IF_ERROR(CheckEntryCount("Commit", commit.entries_size()));
  CommitPlan plan;
  plan.entries.reserve(static_cast<std::size_t>(commit.entries_size()));
  for (const v1::CommitEntry& entry : commit.entries()) {
    KERF_RETURN_IF_ERROR(CheckEntry("commit.entries.locator", entry));
    KERF_ASSIGN_OR_RETURN(const Digest digest, ReadDigest("commit.entries.digest", entry.digest()));
    std::uint32_t length_bytes = 0;
    std::uint64_t absent_at = 0;
    if (const auto pending = pending_by_digest_.find(digest); pending != pending_by_digest_.end()) {
      length_bytes = slots_[pending->second].length_bytes;
      absent_at = slots_[pending->second].absent_at;
    } else if (const auto stale = stale_.find(digest); stale != stale_.end()) {
      length_bytes = stale->second;
    } else {
      plan.others.push_back(digest);
    }
    if (length_bytes > 0) {
      plan.entries.push_back({digest, length_bytes, entry.locator(), absent_at});
    }
  }
  return plan;
}

absl::Status Session::UnknownDigest(const Digest& digest) const {
  const std::string hex =
      DigestToHex(digest, DigestSizeBytes(parameters_.repository.digest_algorithm));
  return MakeError(Reason::kUnknownDigest,
                   Cat("Commit of ", hex,
                       ": this stream has no NEW or UNVERIFIED chunk of that digest, it was not "
                       "reported stale, and the index does not hold it"),
                   {{"digest", hex}});
}

v1::Committed Session::ApplyCommit(const v1::Commit& commit, std::size_t held_count) {
  v1::Committed committed;
  committed.set_entry_count(static_cast<std::uint32_t>(held_count));
  std::vector<std::uint64_t> touched;
  for (const v1::CommitEntry& entry : commit.entries()) {
    Digest digest;
    std::memcpy(digest.bytes.data(), entry.digest().data(), entry.digest().size());
    stale_.erase(digest);
    const auto found = pending_by_digest_.find(digest);
    // The same digest may stand twice in one Commit.
    if (found == pending_by_digest_.end()) continue;
    Slot slot = found->second;
    pending_by_digest_.erase(found);
    while (slot != kNoSlot) {
      Pending& pending = slots_[slot];
      Unlink(slot, files_.find(pending.file_number)->second);
      if (touched.empty() || touched.back() != pending.file_number) {
        touched.push_back(pending.file_number);
      }
      --pending_count_;
      const Slot next = std::exchange(pending.next_of_digest, free_slot_);
      free_slot_ = std::exchange(slot, next);
    }
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const std::uint64_t number : touched) {
    File& file = files_.find(number)->second;
    const std::uint64_t durable_offset = DurableOffset(file);
    if (durable_offset != file.told_offset) {
      file.told_offset = durable_offset;
      v1::FileProgress* progress = committed.add_files();
      progress->set_file_number(number);
      progress->set_durable_offset(durable_offset);
    }
    FinishIfComplete(number);
  }
  return committed;
}

absl::StatusOr<std::vector<IndexEntry>> Session::PlanStale(const v1::ReportStale& report) const {
  KERF_RETURN_IF_ERROR(RequireOpen("ReportStale"));
  KERF_RETURN_IF_ERROR(CheckEntryCount("ReportStale", report.entries_size()));
  std::vector<IndexEntry> entries;
  entries.reserve(static_cast<std::size_t>(report.entries_size()));
  for (const v1::CommitEntry& entry : report.entries()) {
    KERF_RETURN_IF_ERROR(CheckEntry("report_stale.entries.locator", entry));
    KERF_ASSIGN_OR_RETURN(const Digest digest,
                          ReadDigest("report_stale.entries.digest", entry.digest()));
    entries.push_back({digest, 0, entry.locator()});
  }
  return entries;
}

absl::Status Session::AddStale(const Digest& digest, std::uint32_t length_bytes) {
  if (stale_.size() >= limits_.max_uncommitted_chunks && !stale_.contains(digest)) {
    return MakeError(Reason::kTooManyUncommittedChunks,
                     Cat("more than ", limits_.max_uncommitted_chunks,
                         " chunks are reported stale and not committed"),
                     {{"limit", Cat(limits_.max_uncommitted_chunks)}});
  }
  std::uint32_t& known = stale_[digest];
  if (length_bytes > 0) known = length_bytes;
  return absl::OkStatus();
}

std::vector<v1::FileDone> Session::TakeDone() { return std::exchange(done_, {}); }

v1::GoAway Session::BeginDrain(std::uint32_t drain_ms) {
  is_draining_ = true;
  v1::GoAway go_away;
  go_away.set_drain_ms(drain_ms);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> offsets;
  for (auto& [number, file] : files_) {
    const std::uint64_t durable_offset = DurableOffset(file);
    if (durable_offset == file.start_offset) continue;
    file.told_offset = durable_offset;
    offsets.emplace_back(number, durable_offset);
  }
  std::sort(offsets.begin(), offsets.end());
  for (const auto& [number, durable_offset] : offsets) {
    v1::FileProgress* progress = go_away.add_files();
    progress->set_file_number(number);
    progress->set_durable_offset(durable_offset);
  }
  return go_away;
}

absl::Status Session::HalfClose() const {
  if (is_draining_) {
    return MakeError(Reason::kDraining,
                     "the server is stopping: go on elsewhere from the durable offsets of GoAway");
  }
  KERF_RETURN_IF_ERROR(RequireOpen("end of the stream"));
  if (in_file_) {
    return MakeError(Reason::kUnfinishedFile,
                     Cat("the stream ended inside file ", file_number_, ", without its FileEnd"),
                     {{"file_number", Cat(file_number_)}});
  }
  return absl::OkStatus();
}

std::size_t Session::memory_bytes() const {
  // A flat_hash_map holds each slot and one control byte.
  return slots_.capacity() * sizeof(Pending) +
         files_.capacity() * (sizeof(std::pair<std::uint64_t, File>) + 1) +
         pending_by_digest_.capacity() * (sizeof(std::pair<Digest, Slot>) + 1) +
         stale_.capacity() * (sizeof(std::pair<Digest, std::uint32_t>) + 1);
}

}  // namespace kerf
