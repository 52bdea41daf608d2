#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/index_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf index export --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf index export --store /backup --output entries.txt\n"
    "  kerf index export --store /backup --json --output entries.jsonl\n"
    "A line for each entry, in the order of the digests: digest, length, and where the store has\n"
    "the chunk, as PACK:POSITION. The file is there once it is complete.";

struct ExportFlags {
  IndexFlags index;
  std::string output;
};

// A file that appears when all of it is written.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Open(const std::string& name) {
    KERF_ASSIGN_OR_RETURN(const std::string path, BehindLinks(name));
    struct stat info{};
    // A device or a pipe would be replaced, not written to.
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return absl::InvalidArgumentError(
          Cat(path, " is no file; without --output the entries go to standard output"));
    }
    OutputFile file;
    file.path_ = path;
    file.temporary_path_ = Cat(path, ".", RandomHex(), ".tmp");
    KERF_ASSIGN_OR_RETURN(file.fd_, CreateNewFile(file.temporary_path_));
    return file;
  }
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = default;
  ~OutputFile() {
    if (fd_.valid()) RemoveFile(temporary_path_).IgnoreError();
  }

  absl::Status Append(std::string_view text) {
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(text.data()),
                                              text.size());
    KERF_RETURN_IF_ERROR(PWriteExactly(fd_.get(), bytes, size_bytes_, temporary_path_));
    size_bytes_ += text.size();
    return absl::OkStatus();
  }

  absl::Status Publish() {
    KERF_RETURN_IF_ERROR(SyncFile(fd_.get(), temporary_path_));
    KERF_RETURN_IF_ERROR(PublishFile(temporary_path_, path_));
    fd_ = UniqueFd();
    return absl::OkStatus();
  }

 private:
  OutputFile() = default;

  // A link stays, and what it leads to is replaced.
  static absl::StatusOr<std::string> BehindLinks(const std::string& name) {
    std::error_code error;
    if (!std::filesystem::is_symlink(name, error)) return name;
    std::filesystem::path target = std::filesystem::canonical(name, error);
    if (!error) return target.string();
    return absl::InvalidArgumentError(
        Cat(name, " is a link that leads to no file (", error.message(), ")"));
  }

  std::string path_;
  std::string temporary_path_;
  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
};

nlohmann::json EntryObject(const StoredChunk& entry, std::size_t digest_size_bytes) {
  return {{"digest", DigestToHex(entry.digest, digest_size_bytes)},
          {"length", entry.length_bytes},
          {"locator", FormatLocator(entry.locator)},
          {"locator_hex", absl::BytesToHexString(ToAbsl(entry.locator))}};
}

std::string EntryLine(const StoredChunk& entry, std::size_t digest_size_bytes) {
  return absl::StrFormat("%s %8d  %s", DigestToHex(entry.digest, digest_size_bytes),
                         entry.length_bytes, FormatLocator(entry.locator));
}

// Reads the index to its end; how many entries it has.
class Export {
 public:
  Export(Context& context, client::ServerIndex& index, std::size_t digest_size_bytes,
         std::optional<OutputFile>& file)
      : context_(context), index_(index), digest_size_bytes_(digest_size_bytes), file_(file) {}

  absl::StatusOr<std::uint64_t> Run(std::uint64_t estimated_count) {
    std::optional<ProgressDisplay> display;
    // The entries themselves show how far it is.
    if (file_.has_value()) {
      display.emplace(context_.reporter, "index export", [this, estimated_count] {
        const std::lock_guard lock(mutex_);
        ProgressState state;
        state.noun = "entries";
        state.counts_only = true;
        state.done_files = count_;
        state.total_files = std::max(estimated_count, count_);
        return state;
      });
    }
    std::optional<Digest> after;
    while (true) {
      if (context_.cancelled) return absl::CancelledError("the export was interrupted");
      KERF_ASSIGN_OR_RETURN(const std::vector<StoredChunk> page, index_.ScanPage(after));
      if (page.empty()) return count_;
      KERF_RETURN_IF_ERROR(Write(page));
      after = page.back().digest;
      const std::lock_guard lock(mutex_);
      count_ += page.size();
    }
  }

 private:
  absl::Status Write(const std::vector<StoredChunk>& page) {
    Reporter& reporter = context_.reporter;
    if (!file_.has_value()) {
      for (const StoredChunk& entry : page) {
        if (reporter.json()) {
          reporter.Json("index_entry", EntryObject(entry, digest_size_bytes_));
        } else {
          reporter.Result(EntryLine(entry, digest_size_bytes_));
        }
      }
      // Nobody reads on, or there is no room: no more has to be asked for.
      return reporter.Flush();
    }
    std::string text;
    for (const StoredChunk& entry : page) {
      text += reporter.json() ? FormatMessage("index_entry", EntryObject(entry, digest_size_bytes_))
                              : EntryLine(entry, digest_size_bytes_);
      text += '\n';
    }
    return file_->Append(text);
  }

  Context& context_;
  client::ServerIndex& index_;
  const std::size_t digest_size_bytes_;
  std::optional<OutputFile>& file_;
  std::mutex mutex_;
  std::uint64_t count_ = 0;
};

ExitCode Run(Context& context, const ExportFlags& flags, const client::ServerAddress& server,
             const Store& store, client::ServerIndex& index) {
  const absl::StatusOr<client::ServerIndexStats> stats = index.ReadStats();
  if (!stats.ok()) return FailWithServer(context, stats.status(), server);
  std::optional<OutputFile> file;
  if (!flags.output.empty()) {
    absl::StatusOr<OutputFile> opened = OutputFile::Open(flags.output);
    if (!opened.ok()) return FailWith(context, Annotate(opened.status(), "--output"));
    file.emplace(*std::move(opened));
  }
  Reporter& reporter = context.reporter;
  const absl::StatusOr<std::uint64_t> count =
      Export(context, index, DigestSizeBytes(store.digest_algorithm()), file)
          .Run(stats->entry_count);
  if (!count.ok()) {
    // Standard output: RunCommand says what became of it.
    if (!file.has_value() && !reporter.Flush().ok()) return ExitCode::kOk;
    return FailWithServer(context, count.status(), server);
  }
  if (file.has_value()) {
    const absl::Status published = file->Publish();
    if (!published.ok()) return FailWith(context, Annotate(published, "--output"));
    reporter.Line(Cat(FormatCounted(*count, "entry"), " in ", Printable(flags.output)));
  }
  nlohmann::json summary = {{"index_entries", *count}};
  PutBytes(summary, "output", flags.output);
  reporter.Json("summary", std::move(summary));
  return ExitCode::kOk;
}

}  // namespace

void AddIndexExport(Context& context, const Verb& index_verb) {
  auto flags = std::make_shared<ExportFlags>();
  const Verb verb = AddIndexSubverb(index_verb, "export", "Print all entries of the index",
                                    kExamples, flags->index);
  verb.AddOption("--output", flags->output, "Write them to this file instead")
      .Check(RefuseEmpty)
      .Type("FILE");
  verb.OnRun([&context, flags] {
    return WithIndex(
        context, flags->index,
        [&](const Store& store, client::ServerIndex& index, const client::ServerAddress& server) {
          return Run(context, *flags, server, store, index);
        });
  });
}

}  // namespace kerf::agent
