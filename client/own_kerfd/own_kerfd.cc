#include "client/own_kerfd/own_kerfd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_lock.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/own_kerfd/kerfd_process.h"
#include "client/own_kerfd/private_folder.h"

namespace kerf::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// On a disk that others keep busy RocksDB opens for half a minute, and one that is just ending may
// take its drain.
constexpr std::chrono::seconds kStartPatience{120};
// From when on people are told that it takes long.
constexpr std::chrono::seconds kTellAfter{5};
constexpr milliseconds kStartPoll{10};
constexpr milliseconds kWatchPoll{100};
// Of one run of kerf; a kerfd that is lost more often is so for a reason.
constexpr int kMaxLosses = 3;
constexpr std::chrono::seconds kEndPatience{10};
// A process gives its locks back before it can be waited for.
constexpr std::chrono::seconds kReapPatience{1};
// The log is begun anew behind this; the one before stays.
constexpr off_t kMaxLogBytes = 1 << 20;
constexpr std::size_t kLastWordsBytes = 4096;

constexpr char kSocket[] = "socket";
// Locked by each kerf that needs the kerfd (LOCK_SH), and by one that ends (LOCK_EX).
constexpr char kUsers[] = "users";
// Locked by the kerfd itself, which has it open from its start (LOCK_EX).
constexpr char kRunning[] = "running";
constexpr char kLog[] = "kerfd.log";
constexpr char kOldLog[] = "kerfd.log.1";

// gRPC takes an address apart, and kerf a list of them.
bool IsPlain(std::string_view path) {
  return std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '-' || c == '_';
  });
}

std::string SocketBehind(int fd) { return Cat("/proc/self/fd/", fd, "/", kSocket); }

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace

OwnKerfd::OwnKerfd(Options options) : options_(std::move(options)) {
  const std::string path = Cat(options_.folder, "/", kSocket);
  is_reached_by_fd_ = path.size() >= sizeof sockaddr_un{}.sun_path || !IsPlain(path);
  // Takes the number that the folder will have.
  folder_ = UniqueFd(open("/", O_PATH | O_CLOEXEC));
}

OwnKerfd::~OwnKerfd() {
  if (watch_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    watch_.join();
  }
  if (!hold_.valid()) return;
  hold_.Reset();
  AwaitEnd();
}

std::string OwnKerfd::address() const {
  if (is_reached_by_fd_) return Cat("unix:", SocketBehind(folder_.get()));
  return Cat("unix:", options_.folder, "/", kSocket);
}

std::string OwnKerfd::log_path() const { return Cat(options_.folder, "/", kLog); }

absl::Status OwnKerfd::Start() {
  if (options_.program.empty()) {
    return absl::UnavailableError(
        ToAbsl(Cat("no server is named, and the program kerfd, which kerf would start, is neither ",
                   options_.searched,
                   ": install it (package kerfd; tools/build makes both programs), or say with "
                   "--server where a kerfd is")));
  }
  KERF_RETURN_IF_ERROR(OpenFolder());
  const auto begin = steady_clock::now();
  bool is_told = false;
  while (!*options_.cancelled) {
    KERF_ASSIGN_OR_RETURN(const bool has_hold, TakeHold());
    if (has_hold) {
      // One that ends is not started again: that would go on for ever.
      if (const auto how = process_ ? EndOf(*process_) : std::nullopt) {
        process_.reset();
        return EndedEarly(*how);
      }
      if (!process_) KERF_RETURN_IF_ERROR(StartIfNone().status());
      KERF_ASSIGN_OR_RETURN(const bool answers, Answers());
      if (answers) {
        watch_ = std::thread([this] { Watch(); });
        return absl::OkStatus();
      }
    }
    const auto waited = steady_clock::now() - begin;
    if (waited > kStartPatience) return TooLate();
    if (waited > kTellAfter && !std::exchange(is_told, true)) {
      options_.on_wait(Cat("waiting for a kerfd of kerf's own to serve; its log: ", log_path()));
    }
    std::this_thread::sleep_for(kStartPoll);
  }
  return absl::CancelledError("interrupted");
}

absl::Status OwnKerfd::OpenFolder() {
  KERF_ASSIGN_OR_RETURN(const PrivateFolder folder, OpenPrivateFolder(options_.folder));
  if (dup3(folder.fd.get(), folder_.get(), O_CLOEXEC) < 0) {
    return absl::ResourceExhaustedError(
        ToAbsl(Cat("cannot hold ", options_.folder, ": ", std::strerror(errno))));
  }
  if (folder.is_new) {
    options_.on_first(Cat("no server is named: kerf starts a kerfd for itself, and ends it; its ",
                          "index and log are in ", options_.folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OwnKerfd::OpenInFolder(const char* name, int flags) const {
  UniqueFd file(openat(folder_.get(), name,
                       flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  if (file.valid()) return file;
  const int error = errno;
  const std::string text =
      Cat("cannot open ", options_.folder, "/", name, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(ToAbsl(text));
  }
  return absl::FailedPreconditionError(ToAbsl(text));
}

absl::StatusOr<bool> OwnKerfd::TakeHold() {
  if (hold_.valid()) return true;
  KERF_ASSIGN_OR_RETURN(UniqueFd users, OpenInFolder(kUsers, O_RDWR));
  const absl::StatusOr<bool> taken = TryLock(users.get(), LOCK_SH);
  if (!taken.ok()) {
    return absl::FailedPreconditionError(ToAbsl(
        Cat("the file system of ", options_.folder, " knows no locks (", MessageOf(taken.status()),
            "): set XDG_STATE_HOME to a folder of yours elsewhere, or say with --server where a "
            "kerfd is")));
  }
  if (*taken) hold_ = std::move(users);
  return *taken;
}

absl::StatusOr<bool> OwnKerfd::StartIfNone() {
  KERF_ASSIGN_OR_RETURN(const UniqueFd running, OpenInFolder(kRunning, O_RDWR));
  const absl::StatusOr<bool> is_free = TryLock(running.get(), LOCK_EX);
  if (!is_free.ok()) return absl::FailedPreconditionError(is_free.status().message());
  if (!*is_free) return false;
  KERF_ASSIGN_OR_RETURN(process_, Spawn(running.get()));
  // For people, where it does not answer: without it the message says less.
  const std::string who = Cat(*process_, " ", HostName(), "\n");
  const bool is_written =
      ftruncate(running.get(), 0) == 0 && pwrite(running.get(), who.data(), who.size(), 0) > 0;
  static_cast<void>(is_written);
  return true;
}

absl::StatusOr<pid_t> OwnKerfd::Spawn(int lock) {
  struct stat facts{};
  if (fstatat(folder_.get(), kLog, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
      facts.st_size > kMaxLogBytes) {
    renameat(folder_.get(), kLog, folder_.get(), kOldLog);
  }
  KERF_ASSIGN_OR_RETURN(const UniqueFd log, OpenInFolder(kLog, O_WRONLY | O_APPEND));
  log_begin_ = lseek(log.get(), 0, SEEK_END);
  const std::string socket =
      is_reached_by_fd_ ? SocketBehind(kFolderInKerfd) : Cat(options_.folder, "/", kSocket);
  KerfdStart start;
  start.program = options_.program;
  // A GPU takes a second to begin with, and memory that others on a desktop want.
  start.arguments = {"--listen",       Cat("unix:", socket),
                     "--data-dir",     options_.folder,
                     "--while-locked", Cat(options_.folder, "/", kUsers),
                     "--gpu",          "off"};
  start.lock = lock;
  start.folder = folder_.get();
  start.log = log.get();
  return StartKerfd(start);
}

absl::StatusOr<bool> OwnKerfd::Answers() const {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return false;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string path = address().substr(std::string_view("unix:").size());
  std::copy(path.begin(), path.end(), name.sun_path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return false;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  // One that is just ending gives its locks back before its socket.
  if (peer.uid == geteuid()) return !process_ || peer.pid == *process_;
  return absl::FailedPreconditionError(
      ToAbsl(Cat(options_.folder, "/", kSocket, " is a socket of user ", peer.uid,
                 ", to whom kerf shows nothing: remove ", options_.folder)));
}

std::string OwnKerfd::LastWords() const {
  const UniqueFd log(openat(folder_.get(), kLog, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const off_t end = log.valid() ? lseek(log.get(), 0, SEEK_END) : 0;
  const auto kept = static_cast<off_t>(kLastWordsBytes);
  std::string text(kLastWordsBytes, '\0');
  const ssize_t count =
      log.valid() ? pread(log.get(), text.data(), text.size(), std::max(log_begin_, end - kept))
                  : 0;
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  // The last line; behind an error of its arguments that is where help is.
  std::string last;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t line_end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, line_end - begin);
    if (!line.empty() && !line.starts_with("See kerfd --help")) last = line;
    begin = line_end + 1;
  }
  return last;
}

absl::Status OwnKerfd::EndedEarly(const std::string& how) const {
  const std::string words = LastWords();
  const std::string text =
      Cat(options_.program, ", which kerf has started for itself, has ended before it served (",
          how, ")", words.empty() ? "" : ": ", words, "; its log: ", log_path());
  // Where its disk is full its words are lost, too.
  const std::string line = Cat("kerf: kerfd has ended before it served (", how, ")\n");
  const UniqueFd log(openat(folder_.get(), kLog, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (log.valid() && write(log.get(), line.data(), line.size()) < 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    return absl::ResourceExhaustedError(
        ToAbsl(Cat(text, ", for which the disk has no room either: make room in ", options_.folder,
                   ", or set XDG_STATE_HOME to a folder of yours elsewhere")));
  }
  return absl::UnavailableError(ToAbsl(text));
}

absl::Status OwnKerfd::TooLate() const {
  const UniqueFd running(openat(folder_.get(), kRunning, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char who[320] = "";
  const ssize_t count = running.valid() ? pread(running.get(), who, sizeof who - 1, 0) : 0;
  const std::string_view known(who, count < 0 ? 0 : static_cast<std::size_t>(count));
  return absl::UnavailableError(ToAbsl(
      Cat("the kerfd of kerf's own does not serve after ", kStartPatience.count(),
          " s (its process and machine: ", known.substr(0, known.find('\n')), "): see its log, ",
          log_path(), "; where machines share ", options_.folder,
          ", set XDG_STATE_HOME to a folder of this one, or say with --server where a kerfd is")));
}

void OwnKerfd::Watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, kWatchPoll);
    if (ends_ || *options_.cancelled) continue;
    lock.unlock();
    const bool goes_on = LookAfter();
    lock.lock();
    if (!goes_on) return;
  }
}

bool OwnKerfd::LookAfter() {
  if (loss_count_ >= kMaxLosses) return AwaitAnother();
  const std::optional<pid_t> before = process_;
  const absl::StatusOr<bool> started = StartIfNone();
  if (started.ok() && !*started) return true;
  ++loss_count_;
  std::string how = "of another kerf";
  const auto deadline = steady_clock::now() + kReapPatience;
  while (before && steady_clock::now() < deadline) {
    if (const auto end = EndOf(*before)) {
      how = *end;
      break;
    }
    std::this_thread::sleep_for(kStartPoll);
  }
  if (!started.ok()) {
    process_.reset();
    const absl::Status why =
        Annotate(started.status(), "the kerfd of kerf's own was lost, and there is no other one");
    options_.on_lost(why);
    GiveUp(why);
    return false;
  }
  options_.on_lost(absl::UnavailableError(
      ToAbsl(Cat("the kerfd of kerf's own was lost (", how, "), and another one is started; its ",
                 "log: ", log_path()))));
  return true;
}

// This kerf starts none any more. Another one may.
bool OwnKerfd::AwaitAnother() {
  const absl::StatusOr<UniqueFd> running = OpenInFolder(kRunning, O_RDWR);
  const auto now = steady_clock::now();
  if (running.ok() && !TryLock(running->get(), LOCK_EX).value_or(true)) {
    gone_since_.reset();
    return true;
  }
  if (!gone_since_) gone_since_ = now;
  if (now - *gone_since_ < kReapPatience) return true;
  const std::string how =
      process_ ? EndOf(*process_).value_or("nobody knows how") : "of another kerf";
  process_.reset();
  options_.on_lost(absl::UnavailableError(
      ToAbsl(Cat("the kerfd of kerf's own was lost again (", how, "), and no other one is ",
                 "started any more; its log: ", log_path()))));
  GiveUp(absl::UnavailableError(
      ToAbsl(Cat("the kerfd of kerf's own was lost ", kMaxLosses + 1, " times, so there is a ",
                 "reason for it: see its log, ", log_path(), ", and run this again"))));
  return false;
}

void OwnKerfd::GiveUp(const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  given_up_ = why;
}

absl::Status OwnKerfd::GivenUp() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

bool OwnKerfd::OthersHoldOn() const {
  const absl::StatusOr<UniqueFd> users = OpenInFolder(kUsers, O_RDWR);
  if (!users.ok()) return true;
  // Free: it has not seen so yet. Else it holds it alone, or others share it.
  if (TryLock(users->get(), LOCK_EX).value_or(false)) return false;
  return TryLock(users->get(), LOCK_SH).value_or(true);
}

void OwnKerfd::AwaitEnd() {
  const auto deadline = steady_clock::now() + kEndPatience;
  while (!*options_.cancelled && steady_clock::now() < deadline) {
    // Another kerf may have started one behind this.
    if (process_ && EndOf(*process_)) process_.reset();
    if (OthersHoldOn()) return;
    if (!process_) {
      const absl::StatusOr<UniqueFd> running = OpenInFolder(kRunning, O_RDWR);
      if (!running.ok() || TryLock(running->get(), LOCK_EX).value_or(true)) return;
    }
    std::this_thread::sleep_for(kStartPoll);
  }
}

}  // namespace kerf::agent
