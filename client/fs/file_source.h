// The content of one regular file, read once from front to back.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/fs/incarnation.h"
#include "client/fs/node.h"

namespace kerf::agent {

// Holds one descriptor. Movable; one thread at a time.
class FileSource {
 public:
  // Opens what has the node's name now, without following symlinks and without touching its access
  // time (where the kernel permits), and looks for holes if it takes less space than its size.
  // Waits where someone else must give back a lease on it first (fcntl(2), F_SETLEASE). Fails with
  //   NotFound            it vanished
  //   FailedPrecondition  another kind of node stands there now
  //   PermissionDenied, ... as from open(2)
  static absl::StatusOr<FileSource> Open(const std::string& node_path, const NodeIdentity& scanned);

  // Nothing of the file can have changed since `scanned` was seen, its name included.
  bool IsAsScanned() const { return is_as_scanned_; }
  // Whether it is certain that this is the file that was seen as `scanned`.
  bool IsSameFileAs(const Incarnation& scanned) const;
  // Before Finish.
  absl::Status ReadXattrs(std::vector<Xattr>& xattrs) const;

  // Fills the front of `buffer` with the next bytes of the content: of the extents one after the
  // other, holes left out. Less than the whole buffer only at the end; 0 is the end. A file that
  // grows is read up to the size that it had in the beginning; one that shrinks ends early. Where a
  // file system tells of too small a size (/proc tells of none, programs behind FUSE of 0 for what
  // they make as it is read) what is behind it is content as well.
  absl::StatusOr<std::size_t> Read(std::span<std::uint8_t> buffer);

  // Before the first Read: whether that may give anything. Looks into a file of size 0.
  bool MayHaveContent();

  // Has the kernel read the next `bytes` of the content meanwhile, as far as they lie in one extent
  // and on a file system that keeps what is read (page_cache.h). To be called before each Read of a
  // large file; changes nothing of what Read gives.
  void ReadAhead(std::uint64_t bytes);

  // After the last Read: looks at the file again. True if it changed while it was read (size,
  // mtime or ctime, or fewer bytes than expected).
  absl::StatusOr<bool> Finish();

  // After the last Read: why what lies behind the size that the file system tells of is not, or not
  // as a whole, among what Read gave. OK: nothing does.
  const absl::Status& cut_short() const { return cut_short_; }

  // Size on opening, holes included; once it is read, that of what was read.
  std::uint64_t size_bytes() const { return size_bytes_; }
  // Of the content: what Read will give if the file does not change, and its size is what the file
  // system tells of.
  std::uint64_t content_bytes() const { return content_bytes_; }

  // After Finish: sets what belongs to the bytes that were read: size, sparse, extents, mode,
  // owner, mtime and ctime as they were on opening. If the file had changed so shortly before that
  // a further change might not move its ctime (stamp_clock.h), `identity.changed` is zero, which
  // counts as changed: the next backup reads it again.
  void Describe(Node& node, NodeIdentity& identity) const;

 private:
  FileSource() = default;

  absl::Status FindExtents();
  void EndEarly();
  std::size_t ReadBehindTheSize(std::span<std::uint8_t> buffer);
  std::size_t PieceBehindTheSize(std::span<std::uint8_t> buffer);
  void EndBehindTheSize(int error);
  void CountBehindTheSize(std::uint64_t count);

  UniqueFd fd_;
  std::string path_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t content_bytes_ = 0;
  Timestamp opened_at_;
  struct stat opened_{};
  NodeIdentity identity_;
  bool is_settled_ = false;
  bool is_as_scanned_ = false;
  bool sparse_ = false;
  bool shrunk_ = false;
  // Nothing more is looked for behind the size.
  bool is_at_end_ = false;
  // What MayHaveContent found, and Read has not given yet.
  std::vector<std::uint8_t> looked_at_;
  absl::Status cut_short_;
  std::vector<Extent> extents_;
  // Where reading stands: in which extent, and how far in it.
  std::size_t extent_index_ = 0;
  std::uint64_t extent_position_ = 0;
  // In the file: up to where the kernel has been told to read.
  std::uint64_t ahead_end_ = 0;
  // Not asked before it matters.
  std::optional<bool> keeps_what_is_read_;
};

}  // namespace kerf::agent
