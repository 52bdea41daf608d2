#include "client/agent/backup/file_sender.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/backup/file_queue.h"
#include "client/agent/backup/standard_input.h"
#include "client/fs/tree_walk.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {
namespace {

// How soon it is noticed that the run has ended, while nothing comes from standard input.
constexpr std::chrono::milliseconds kStreamPatience{100};

// How far the disk is ahead of what is sent: some milliseconds' worth of a fast one.
constexpr std::uint64_t kReadAheadBytes = std::uint64_t{8} << 20;

// The server's name of a file: its path, or where that is longer than the protocol takes, a
// fingerprint of it.
std::string FileKey(const std::string& path) {
  constexpr std::size_t kMaxFileKeyBytes = 4096;
  if (path.size() <= kMaxFileKeyBytes) return path;
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(path.data()),
                                            path.size());
  return DigestToHex(Fingerprint(DigestAlgorithm::kBlake3, bytes),
                     DigestSizeBytes(DigestAlgorithm::kBlake3));
}

}  // namespace

void FileSender::CountUnchanged(std::span<const ChunkRef> recipe) {
  for (const ChunkRef& chunk : recipe) unchanged_bytes_ += chunk.length_bytes;
  CountSavings();
}

// Of what had to be looked up, not of what was merely read so far.
void FileSender::CountSavings() {
  const ChunkCounts counts = keeper_.counts();
  progress_.known_bytes.store(counts.bytes + unchanged_bytes_, std::memory_order_relaxed);
  progress_.new_bytes.store(counts.new_bytes, std::memory_order_relaxed);
}

// Editors and package managers replace files all the time: what has the name now is backed up, and
// all that is said of it is that of the open file.
void FileSender::TakeWhatIsOpen(const FileSource& source, EntryWindow::Slot& slot) const {
  // To what nothing can prove no name was linked.
  slot.is_other_file =
      slot.shared.has_value() && CanBeProven(*slot.shared) && !source.IsSameFileAs(*slot.shared);
  if (source.IsAsScanned()) return;
  Node& node = slot.entry.tree.node;
  if (const absl::Status read = source.ReadXattrs(node.xattrs); !read.ok()) {
    node.xattrs.clear();
    options_.warn(AbsolutePath(node.path), read);
  }
}

absl::Status FileSender::Send(Lane& lane, EntryWindow::Slot* slot) {
  KERF_RETURN_IF_ERROR(options_.failure());
  return options_.stream_fd.has_value() ? SendStream(lane, slot) : SendFile(lane, slot);
}

Lane::OnComplete FileSender::WhenComplete(EntryWindow::Slot* slot, std::uint64_t hole_bytes) {
  // All lanes have the window: without memory the process ends.
  return [this, slot, hole_bytes](FileOutcome outcome) noexcept {
    slot->entry.tree.recipe = std::move(outcome.recipe);
    progress_.done_files.fetch_add(1, std::memory_order_relaxed);
    progress_.done_bytes.fetch_add(hole_bytes, std::memory_order_relaxed);
    CountSavings();
    window_.CompleteParts(slot, 1);
  };
}

// As it is read, so that one large file does not look like a standstill.
void FileSender::CountRead(std::uint64_t bytes) {
  progress_.done_bytes.fetch_add(bytes, std::memory_order_relaxed);
  CountSavings();
}

// There is nothing else in the snapshot: what is wrong with it ends the run.
absl::Status FileSender::SendStream(Lane& lane, EntryWindow::Slot* slot) {
  Node& node = slot->entry.tree.node;
  const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
    while (true) {
      KERF_RETURN_IF_ERROR(options_.failure());
      KERF_ASSIGN_OR_RETURN(const std::optional<std::size_t> count,
                            ReadStream(*options_.stream_fd, span, kStreamPatience));
      if (!count.has_value()) continue;
      node.size_bytes += *count;
      progress_.scanned_bytes.fetch_add(*count, std::memory_order_relaxed);
      CountRead(*count);
      return *count;
    }
  };
  absl::Status read_status;
  KERF_RETURN_IF_ERROR(
      lane.SendFile(FileKey(node.path), 0, read, WhenComplete(slot, 0), read_status));
  KERF_RETURN_IF_ERROR(read_status);
  if (options_.stream_end) KERF_RETURN_IF_ERROR(options_.stream_end(options_.failure));
  if (node.size_bytes == 0) {
    return absl::FailedPreconditionError(
        options_.stream_end
            ? "the command wrote nothing to its standard output, and no snapshot was made"
            : "nothing came from standard input: whatever should have written to it has failed, "
              "and no snapshot was made");
  }
  window_.CompleteParts(slot, 1);
  return absl::OkStatus();
}

// OK unless the lane has failed; a file that cannot be read is warned of and dropped.
absl::Status FileSender::SendFile(Lane& lane, EntryWindow::Slot* slot) {
  BackupEntry& entry = slot->entry;
  const std::string path = entry.tree.node.path;
  absl::StatusOr<FileSource> source = [&] {
    const SlowReads::Wait wait(slow_reads_, path);
    return FileSource::Open(path, entry.identity);
  }();
  if (!source.ok()) {
    options_.warn(AbsolutePath(path), source.status());
    window_.DropParts(slot, 2);
    return absl::OkStatus();
  }
  TakeWhatIsOpen(*source, *slot);
  const Lane::OnComplete on_complete =
      WhenComplete(slot, source->size_bytes() - source->content_bytes());
  const bool may_have_content = [&] {
    const SlowReads::Wait wait(slow_reads_, path);
    return source->MayHaveContent();
  }();
  absl::Status read_status;
  if (!may_have_content) {
    on_complete({});
  } else {
    // What is smaller was read ahead as a whole (cache_warmer.h).
    const bool is_large = options_.reads_ahead && source->content_bytes() > kAheadFileBytes;
    std::uint64_t told_bytes = source->content_bytes();
    const auto read = [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
      KERF_RETURN_IF_ERROR(options_.failure());
      const SlowReads::Wait wait(slow_reads_, path);
      if (is_large) source->ReadAhead(kReadAheadBytes);
      KERF_ASSIGN_OR_RETURN(const std::size_t count, source->Read(span));
      const std::uint64_t untold_bytes = count - std::min<std::uint64_t>(count, told_bytes);
      told_bytes -= count - untold_bytes;
      progress_.scanned_bytes.fetch_add(untold_bytes, std::memory_order_relaxed);
      CountRead(count);
      return count;
    };
    KERF_RETURN_IF_ERROR(
        lane.SendFile(FileKey(path), source->content_bytes(), read, on_complete, read_status));
  }
  if (!read_status.ok()) {
    KERF_RETURN_IF_ERROR(options_.failure());
    // The lane will not complete what could not be read to its end.
    options_.warn(AbsolutePath(path), read_status);
    window_.DropParts(slot, 2);
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> changed = source->Finish();
  if (!changed.ok()) {
    options_.warn(AbsolutePath(path), changed.status());
    window_.DropParts(slot, 1);
    return absl::OkStatus();
  }
  if (*changed) {
    options_.warn(
        AbsolutePath(path),
        absl::AbortedError("it changed while it was read; what was read is in the snapshot"));
  }
  if (!source->cut_short().ok()) options_.warn(AbsolutePath(path), source->cut_short());
  source->Describe(entry.tree.node, entry.identity);
  window_.CompleteParts(slot, 1);
  return absl::OkStatus();
}

}  // namespace kerf::agent
