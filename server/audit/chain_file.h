// The file of an audit log: lines that hold each other (base/hash_chain.h), on a disk that may be
// full, under a name that others may take away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash_chain.h"
#include "base/unique_fd.h"

namespace kerf::audit {

// Not thread-safe. The chain goes on over restarts, and over files: one that is full, or that is no
// longer what was left there, is called PATH.1, PATH.2 and so on, the highest number the newest
// one, and none is ever deleted. A file is under PATH once its first line is whole and durable.
class ChainFile {
 public:
  struct Options {
    std::string path;
    // Another file begins before a line would make it longer.
    std::uint64_t max_file_bytes = 0;
    // The member "time" of lines that are the file's own.
    std::function<std::string()> time_member;
  };

  // Goes on behind the last whole line; what stands behind it, as after a crash, is told of in the
  // next one. A file without any such line is moved away, and another chain begun. Errors:
  // FailedPrecondition for a path that is no file, or a file that another process writes;
  // Unavailable for all else, as a full disk.
  static absl::StatusOr<std::unique_ptr<ChainFile>> Open(Options options);
  ChainFile(const ChainFile&) = delete;
  ChainFile& operator=(const ChainFile&) = delete;

  // A line, as SealLine takes it, behind those that wait.
  void Add(std::string members) { waiting_.push_back(std::move(members)); }
  // Writes what waits. Unavailable: it goes on where it has stopped the next time.
  absl::Status Write();
  // Makes what was written durable.
  absl::Status Sync();
  // Begins another file where somebody has moved, removed or changed this one.
  absl::Status Check();

  // Behind the last line that is written whole.
  const ChainPoint& written() const { return written_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  std::size_t waiting_count() const { return waiting_.size(); }

 private:
  explicit ChainFile(Options options) : options_(std::move(options)) {}

  absl::Status Begin();
  // Finds written_ and what is behind it in the file at `fd`; false: it has no whole line.
  absl::StatusOr<bool> FindEnd(int fd);
  // The same in that of the files before it whose end is the furthest, whatever others have called
  // it.
  absl::Status FindEndBefore();
  // Says in unusable_ what has become of the file.
  absl::Status LookAtPath();
  absl::Status LeaveBegunLine();
  // Moves what is under the path out of the way and puts a new file there.
  absl::Status BeginFile(std::string_view why);
  // A new file, locked and durable, under a name of its own; `end` becomes where it ends.
  absl::StatusOr<UniqueFd> MakeFile(const std::string& path, std::string_view why,
                                    const std::string& before, ChainPoint* end);
  absl::Status MoveAway(const std::string& to);
  // The next line.
  absl::Status WriteLine();
  bool IsFull(std::size_t line_bytes) const;

  const Options options_;
  UniqueFd file_;
  std::uint64_t size_bytes_ = 0;
  ChainPoint written_;
  std::deque<std::string> waiting_;
  // Of the line that is next, so much is in the file.
  std::size_t begun_bytes_ = 0;
  // What is in the file behind the last whole line has no end of line.
  bool needs_newline_ = false;
  // The line that tells of what is behind the last whole line of the file, or of the one before; it
  // goes before all that wait. Empty: nothing is there.
  std::string torn_members_;
  // What is behind the path in the name of the file that it goes on from, as far as that is known.
  std::string before_;
  // Empty: the file is in use. Else why another one has to be begun.
  std::string unusable_;
  // A file that could not be replaced by another one is tried again at this size.
  std::uint64_t next_begin_bytes_ = 0;
};

}  // namespace kerf::audit
