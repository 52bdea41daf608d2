// `kerf audit verify`: whether an audit log of kerfd is as it was written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hash_chain.h"
#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/agent/audit/chain_check.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr char kAuditExamples[] = "  kerf audit verify /var/log/kerf/audit.log*";
constexpr char kVerifyExamples[] =
    "  kerf audit verify /var/log/kerf/audit.log*            all files of one log, in any order\n"
    "  kerf audit verify audit.log --expect-hash HASH        also that nothing was cut off its "
    "end\n"
    "kerfd says in its own log how far the audit log has come, every 10 minutes and when it "
    "stops:\n"
    "a hash that was noted elsewhere has to be there ever after.";
constexpr std::size_t kBlockBytes = 1 << 20;
// Findings that are printed; further ones are counted.
constexpr std::uint64_t kMaxPrinted = 100;
// Of a line that kerfd writes while it is read.
constexpr int kOpenLineTries = 20;
constexpr std::chrono::milliseconds kOpenLinePause{50};

struct AuditFlags {
  std::vector<std::string> files;
  std::string expected_hash;
};

struct LogFile {
  std::string path;
  std::uint64_t first_seq = 0;
  std::uint64_t size_bytes = 0;
};

std::string CheckHash(const std::string& hash) {
  const bool is_hash = hash.size() == kChainHashDigits && IsHex(hash);
  return is_hash ? "" : "a hash is 64 digits of 0-9 and a-f, as this verb prints it";
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, path);
  return file;
}

// How much of it has come; 0: the end.
absl::StatusOr<std::size_t> ReadBlock(int fd, std::vector<char>& block, const std::string& path) {
  while (true) {
    const ssize_t count = read(fd, block.data(), block.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return ErrnoStatus(errno, path);
  }
}

// The number of its first line, as far as that is one.
absl::StatusOr<LogFile> LookAt(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const UniqueFd file, OpenLog(path));
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, path);
  std::vector<char> block(kMaxChainLineBytes);
  KERF_ASSIGN_OR_RETURN(const std::size_t count, ReadBlock(file.get(), block, path));
  const std::string_view text(block.data(), count);
  const auto line = ReadChainLine(text.substr(0, text.find('\n')));
  return LogFile{path, line.has_value() ? line->seq : 0, static_cast<std::uint64_t>(info.st_size)};
}

class Verification {
 public:
  Verification(Context& context, const AuditFlags& flags)
      : context_(context),
        flags_(flags),
        check_([this](const ChainFinding& finding) { Say(finding); }, flags.expected_hash) {}

  ExitCode Run() {
    if (absl::Status status = OrderFiles(); !status.ok()) return FailWith(context_, status);
    const auto began = std::chrono::steady_clock::now();
    absl::Status status;
    {
      const ProgressDisplay progress(context_.reporter, "audit verify", [this] { return State(); });
      for (std::size_t number = 0; number < files_.size() && status.ok(); ++number) {
        status = Read(files_[number], number + 1 == files_.size());
      }
    }
    if (context_.cancelled) return ExitCode::kInterrupted;
    if (!status.ok()) return FailWith(context_, status);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    return Conclude(check_.End(), taken.count());
  }

 private:
  absl::Status OrderFiles() {
    for (const std::string& path : flags_.files) {
      KERF_ASSIGN_OR_RETURN(LogFile file, LookAt(path));
      total_bytes_ += file.size_bytes;
      files_.push_back(std::move(file));
    }
    std::stable_sort(files_.begin(), files_.end(), [](const LogFile& left, const LogFile& right) {
      return left.first_seq < right.first_seq;
    });
    return absl::OkStatus();
  }

  absl::Status Read(const LogFile& log, bool is_last) {
    KERF_ASSIGN_OR_RETURN(const UniqueFd file, OpenLog(log.path));
    check_.BeginFile(log.path);
    std::vector<char> block(kBlockBytes);
    int tries = 0;
    while (!context_.cancelled) {
      KERF_ASSIGN_OR_RETURN(const std::size_t count, ReadBlock(file.get(), block, log.path));
      check_.Feed({block.data(), count});
      done_bytes_ += count;
      if (count > 0) continue;
      if (!is_last || !check_.has_open_line() || ++tries > kOpenLineTries) break;
      std::this_thread::sleep_for(kOpenLinePause);
    }
    ++done_files_;
    return absl::OkStatus();
  }

  ProgressState State() const {
    return {.done_files = done_files_,
            .total_files = files_.size(),
            .done_bytes = std::min(done_bytes_.load(), total_bytes_),
            .total_bytes = total_bytes_};
  }

  void Say(const ChainFinding& finding) {
    if (++said_count_ > kMaxPrinted) return;
    context_.reporter.Json("finding", {{"kind", NameOf(finding.kind)},
                                       {"file", finding.path},
                                       {"line", finding.line},
                                       {"message", finding.text}});
    context_.reporter.Result(finding.line == 0 ? Printable(finding.text)
                                               : Cat(Printable(finding.path), ":", finding.line,
                                                     ": ", Printable(finding.text)));
  }

  ExitCode Conclude(const ChainSums& sums, double seconds) {
    Reporter& reporter = context_.reporter;
    reporter.Json("summary", {{"files", files_.size()},
                              {"lines", sums.line_count},
                              {"first_seq", sums.first_seq},
                              {"last_seq", sums.last.seq},
                              {"last_hash", sums.last.hash},
                              {"torn", sums.torn_count},
                              {"findings", sums.finding_count},
                              {"seconds", seconds}});
    if (sums.finding_count > kMaxPrinted) {
      reporter.Result(
          Cat("and ", FormatCounted(sums.finding_count - kMaxPrinted, "finding"), " more"));
    }
    reporter.Line(Cat(FormatCounted(sums.line_count, "line"), " in ",
                      FormatCounted(files_.size(), "file"), ", seq ", sums.first_seq, " to ",
                      sums.last.seq, ", the last one ", sums.last.hash));
    if (sums.first_seq > 1) {
      reporter.Line(
          Cat("What was before seq ", sums.first_seq, " is in files that were not given."));
    }
    if (sums.torn_count > 0) {
      reporter.Line(Cat("kerfd tells of ", FormatCounted(sums.torn_count, "place"),
                        " where it ended while it wrote."));
    }
    if (flags_.expected_hash.empty() && sums.finding_count == 0) {
      reporter.Line("Whether lines were cut off the end only --expect-hash can tell.");
    }
    if (sums.finding_count > 0) return ExitCode::kIntegrity;
    reporter.Line("All is as it was written.");
    return ExitCode::kOk;
  }

  Context& context_;
  const AuditFlags& flags_;
  ChainCheck check_;
  std::vector<LogFile> files_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t said_count_ = 0;
  std::atomic<std::uint64_t> done_bytes_{0};
  std::atomic<std::uint64_t> done_files_{0};
};

}  // namespace

void AddAuditVerb(Context& context) {
  const Verb verb = AddVerb(context, "audit", "Look at audit logs of kerfd", kAuditExamples);
  verb.RequireVerb();
  auto flags = std::make_shared<AuditFlags>();
  const Verb verify =
      verb.AddVerb("verify", "Check that an audit log is as it was written", kVerifyExamples);
  verify.AddOption("files", flags->files, "All files of one log, or some that follow each other")
      .Check(RefuseEmpty)
      .Type("FILE")
      .Required();
  verify
      .AddOption("--expect-hash", flags->expected_hash,
                 "Of a line that has to be there, as this verb or kerfd's log said it before")
      .Check(CheckHash)
      .Type("HASH");
  verify.OnRun([&context, flags] { return Verification(context, *flags).Run(); });
}

}  // namespace kerf::agent
