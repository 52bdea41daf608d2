#include "server/audit/chain_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"

namespace kerf::audit {
namespace {

constexpr ::mode_t kFileMode = 0640;
// A file that cannot be replaced grows by such a part of its size before that is tried again.
constexpr std::uint64_t kBeginAgainPart = 8;
// Of one that is full: more than it begins with, and any line.
constexpr std::uint64_t kMinFileBytes = 4 * kMaxChainLineBytes;
// While a file is made, behind its name.
constexpr std::string_view kUnfinished = ".new";

absl::Status ErrorOf(int error, std::string_view what, const std::string& path) {
  return absl::UnavailableError(ToAbsl(Cat(what, " ", path, ": ", std::strerror(error))));
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::string NameOf(const std::string& path) { return std::filesystem::path(path).filename(); }

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = FolderOf(path);
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid() && fsync(fd.get()) == 0) return absl::OkStatus();
  return ErrorOf(errno, "cannot sync", folder);
}

// The calling process alone writes to it, from here on.
absl::Status Lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return ErrorOf(errno, "cannot lock", path);
  return absl::FailedPreconditionError(
      ToAbsl(Cat(path, ": another process writes to it; each kerfd needs a file of its own")));
}

// How much of it was written; less than all of it only with an error.
std::size_t Append(int fd, std::string_view bytes, int* error) {
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      *error = count < 0 ? errno : ENOSPC;
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  return written;
}

absl::StatusOr<std::string> ReadFrom(int fd, std::uint64_t offset, std::size_t size_bytes) {
  std::string bytes(size_bytes, '\0');
  std::size_t read = 0;
  while (read < size_bytes) {
    const ssize_t count =
        pread(fd, bytes.data() + read, size_bytes - read, static_cast<off_t>(offset + read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrorOf(errno, "cannot read", "the audit log");
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  bytes.resize(read);
  return bytes;
}

// "PATH.7" and the like: their numbers.
std::vector<std::uint64_t> FindNumbers(const std::string& path) {
  const std::string prefix = NameOf(path) + ".";
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator files(FolderOf(path), error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename();
    if (!name.starts_with(prefix)) continue;
    std::uint64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, wrong] = std::from_chars(name.data() + prefix.size(), end, number);
    if (wrong == std::errc() && stop == end) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChainFile>> ChainFile::Open(Options options) {
  std::unique_ptr<ChainFile> opened(new ChainFile(std::move(options)));
  KERF_RETURN_IF_ERROR(opened->Begin());
  return opened;
}

absl::Status ChainFile::Begin() {
  const std::string& path = options_.path;
  // A pipe without a reader would keep it waiting.
  UniqueFd file(open(path.c_str(), O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) {
    KERF_RETURN_IF_ERROR(FindEndBefore());
    return BeginFile("");
  }
  struct stat info{};
  if (!file.valid() && errno == ELOOP) {
    return absl::FailedPreconditionError(ToAbsl(Cat(path, " is a symbolic link")));
  }
  if (!file.valid() || fstat(file.get(), &info) != 0) return ErrorOf(errno, "cannot open", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(ToAbsl(Cat(path, " is no file")));
  }
  KERF_RETURN_IF_ERROR(Lock(file.get(), path));
  if (info.st_size == 0) {
    KERF_RETURN_IF_ERROR(FindEndBefore());
    return BeginFile("");
  }
  KERF_ASSIGN_OR_RETURN(const bool has_end, FindEnd(file.get()));
  if (!has_end) {
    Log(LogLevel::kError, Cat("the audit log ", path,
                              " does not end with lines of its own: it is "
                              "moved away, and another chain begun; kerf audit verify tells more"));
    return BeginFile("the file before it does not end with lines of a chain");
  }
  file_ = std::move(file);
  size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  return absl::OkStatus();
}

absl::StatusOr<bool> ChainFile::FindEnd(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrorOf(errno, "cannot look at", options_.path);
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  const std::uint64_t window_bytes =
      std::min<std::uint64_t>(size_bytes, kMaxTornBytes + kMaxChainLineBytes);
  const std::uint64_t offset = size_bytes - window_bytes;
  KERF_ASSIGN_OR_RETURN(const std::string window,
                        ReadFrom(fd, offset, static_cast<std::size_t>(window_bytes)));
  // Without its end of line the last one may be whole, too.
  std::size_t end = window.size();
  while (true) {
    const std::size_t newline = end == 0 ? std::string::npos : window.rfind('\n', end - 1);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    const std::string_view text = std::string_view(window).substr(begin, end - begin);
    const bool is_cut = begin == 0 && offset > 0;
    const auto line = is_cut ? std::nullopt : ReadChainLine(text);
    if (line.has_value() && line->is_intact) {
      written_ = line->point();
      // Behind its end of line.
      const std::string_view rest =
          std::string_view(window).substr(std::min(end + 1, window.size()));
      needs_newline_ = window.back() != '\n';
      torn_members_.clear();
      if (!rest.empty()) {
        torn_members_ =
            Cat(options_.time_member(), ",", TornTailMembers({rest.size(), ChainHashOf(rest)}));
      }
      return true;
    }
    if (newline == std::string::npos) return false;
    end = newline;
  }
}

absl::Status ChainFile::FindEndBefore() {
  ChainPoint furthest;
  std::string torn_members;
  for (const std::uint64_t number : FindNumbers(options_.path)) {
    const std::string suffix = Cat(".", number);
    const std::string path = options_.path + suffix;
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.valid()) return ErrorOf(errno, "cannot read", path);
    KERF_ASSIGN_OR_RETURN(const bool has_end, FindEnd(file.get()));
    if (!has_end || written_.seq <= furthest.seq) continue;
    furthest = written_;
    torn_members = torn_members_;
    before_ = suffix;
  }
  written_ = std::move(furthest);
  torn_members_ = torn_members;
  // What is said of the end of that file is in another one.
  needs_newline_ = false;
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ChainFile::MakeFile(const std::string& path, std::string_view why,
                                             const std::string& before, ChainPoint* end) {
  unlink(path.c_str());
  UniqueFd file(
      open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) return ErrorOf(errno, "cannot make", path);
  if (fchmod(file.get(), kFileMode) != 0) return ErrorOf(errno, "cannot make", path);
  KERF_RETURN_IF_ERROR(Lock(file.get(), path));
  std::string text;
  if (!torn_members_.empty()) text = SealLine(torn_members_, end);
  text += SealLine(Cat(options_.time_member(), ",\"event\":\"", kFileEvent, "\",\"before\":\"",
                       before, "\",\"why\":\"", why, "\""),
                   end);
  int error = 0;
  if (Append(file.get(), text, &error) < text.size() ||
      (fdatasync(file.get()) != 0 && (error = errno) != 0)) {
    return ErrorOf(error, "cannot write", path);
  }
  return file;
}

absl::Status ChainFile::MoveAway(const std::string& to) {
  if (rename(options_.path.c_str(), to.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrorOf(errno, "cannot rename", options_.path);
}

// It stays in the file that is left, which may be another one by now; the next file tells of it,
// and has the line whole.
absl::Status ChainFile::LeaveBegunLine() {
  if (begun_bytes_ == 0) return absl::OkStatus();
  const ChainPoint end = written_;
  const absl::StatusOr<bool> found = FindEnd(file_.get());
  if (!found.ok()) return found.status();
  if (!*found || written_ != end) torn_members_.clear();
  written_ = end;
  return absl::OkStatus();
}

absl::Status ChainFile::BeginFile(std::string_view why) {
  const std::string& path = options_.path;
  const std::string unfinished = Cat(path, kUnfinished);
  if (file_.valid()) fdatasync(file_.get());
  KERF_RETURN_IF_ERROR(LeaveBegunLine());
  struct stat info{};
  const bool is_there = lstat(path.c_str(), &info) == 0 && info.st_size > 0;
  std::uint64_t number = 0;
  for (const std::uint64_t other : FindNumbers(path)) number = std::max(number, other);
  const std::string away = Cat(".", number + 1);
  const std::string before = is_there ? away : std::exchange(before_, "");
  ChainPoint end = written_;
  absl::StatusOr<UniqueFd> file = MakeFile(unfinished, why, before, &end);
  absl::Status status = file.status();
  if (status.ok() && is_there) status = MoveAway(path + away);
  if (status.ok() && rename(unfinished.c_str(), path.c_str()) != 0) {
    status = ErrorOf(errno, "cannot rename", unfinished);
  }
  if (!status.ok()) {
    unlink(unfinished.c_str());
    return status;
  }
  fstat(file->get(), &info);
  size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  file_ = *std::move(file);
  written_ = std::move(end);
  begun_bytes_ = 0;
  needs_newline_ = false;
  torn_members_.clear();
  unusable_.clear();
  next_begin_bytes_ = 0;
  return SyncFolderOf(path);
}

bool ChainFile::IsFull(std::size_t line_bytes) const {
  return begun_bytes_ == 0 && torn_members_.empty() &&
         size_bytes_ + line_bytes >
             std::max({options_.max_file_bytes, next_begin_bytes_, kMinFileBytes});
}

absl::Status ChainFile::Write() {
  if (!unusable_.empty()) {
    // It is not to change while it is made.
    const std::string why = unusable_;
    KERF_RETURN_IF_ERROR(BeginFile(why));
  }
  while (!torn_members_.empty() || !waiting_.empty()) KERF_RETURN_IF_ERROR(WriteLine());
  return absl::OkStatus();
}

absl::Status ChainFile::WriteLine() {
  ChainPoint end = written_;
  const bool is_torn = !torn_members_.empty();
  std::string line = SealLine(is_torn ? torn_members_ : waiting_.front(), &end);
  if (needs_newline_) line.insert(0, 1, '\n');
  if (IsFull(line.size())) {
    KERF_RETURN_IF_ERROR(Sync());
    if (absl::Status status = BeginFile("the file before it was full"); !status.ok()) {
      // Rather a long file than none.
      next_begin_bytes_ = size_bytes_ + options_.max_file_bytes / kBeginAgainPart;
      Log(LogLevel::kWarning,
          Cat("the audit log goes on in a file that is full: ", MessageOf(status)));
    }
    return absl::OkStatus();
  }
  int error = 0;
  const std::size_t count =
      Append(file_.get(), std::string_view(line).substr(begun_bytes_), &error);
  begun_bytes_ += count;
  size_bytes_ += count;
  if (begun_bytes_ < line.size()) return ErrorOf(error, "cannot write", options_.path);
  begun_bytes_ = 0;
  needs_newline_ = false;
  written_ = std::move(end);
  if (is_torn) {
    torn_members_.clear();
  } else {
    waiting_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status ChainFile::Sync() {
  if (fdatasync(file_.get()) == 0) return absl::OkStatus();
  return ErrorOf(errno, "cannot sync", options_.path);
}

absl::Status ChainFile::Check() {
  if (unusable_.empty()) {
    KERF_RETURN_IF_ERROR(LookAtPath());
    if (unusable_.empty()) return absl::OkStatus();
    Log(LogLevel::kError, Cat("the audit log ", options_.path, " is begun anew, for ", unusable_));
  }
  const std::string why = unusable_;
  return BeginFile(why);
}

absl::Status ChainFile::LookAtPath() {
  struct stat mine{};
  struct stat there{};
  if (fstat(file_.get(), &mine) != 0) return ErrorOf(errno, "cannot look at", options_.path);
  if (lstat(options_.path.c_str(), &there) != 0) {
    if (errno != ENOENT) return ErrorOf(errno, "cannot look at", options_.path);
    unusable_ = "the file before it was moved or removed";
  } else if (there.st_dev != mine.st_dev || there.st_ino != mine.st_ino) {
    unusable_ = "another file had come in its place";
  } else if (static_cast<std::uint64_t>(mine.st_size) != size_bytes_) {
    unusable_ = "somebody else had changed the file before it";
  }
  return absl::OkStatus();
}

}  // namespace kerf::audit
