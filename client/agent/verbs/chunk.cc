#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/cut/parallel_file_cutter.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/cut_flags.h"
#include "client/store/format/durable_file.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/registry.h"
#include "kernels/stream_cutter.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf chunk disk.img --profile fastcdc2020-8k\n"
    "  kerf chunk a.tar b.tar --profile fastcdc2020:min=2048,avg=8192,max=32768,level=1 --json\n"
    "  tar c /etc | kerf chunk - --digest sha256";

struct ChunkFlags {
  std::vector<std::string> files;
  CutFlags cut;
  std::string backend = std::string(kAutomaticBackend);
  std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
};

// From this size on a file is cut by all threads.
constexpr std::uint64_t kParallelFileBytes = 2 * kDefaultCutWindowBytes;
constexpr std::size_t kMaxThreads = 1024;

class FileChunker {
 public:
  FileChunker(Context& context, const Chunker& chunker, const ParallelFileOptions& options,
              bool name_files)
      : context_(context), chunker_(chunker), options_(options), name_files_(name_files) {}

  absl::Status Run(const std::string& file) {
    const bool standard_input = file == "-";
    const UniqueFd opened(standard_input ? -1 : open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!standard_input && opened.get() < 0) return ErrnoStatus(errno, file);
    const int fd = standard_input ? STDIN_FILENO : opened.get();
    struct stat status = {};
    if (options_.thread_count > 1 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        static_cast<std::uint64_t>(status.st_size) >= kParallelFileBytes) {
      return RunInParallel(file, fd);
    }
    StreamCutter cutter(chunker_);
    while (!context_.cancelled) {
      const std::span<std::uint8_t> span = cutter.WritableSpan();
      const ssize_t count = read(fd, span.data(), span.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ErrnoStatus(errno, file);
      if (count == 0) break;
      cutter.Commit(static_cast<std::size_t>(count));
      ReportAll(file, cutter);
    }
    // What is left is no chunk then.
    if (context_.cancelled) return absl::OkStatus();
    cutter.Finish();
    ReportAll(file, cutter);
    return absl::OkStatus();
  }

 private:
  absl::Status RunInParallel(const std::string& file, int fd) {
    const absl::Status status =
        CutFileInParallel(fd, options_, context_.cancelled, [&](std::span<const FileChunk> chunks) {
          for (const FileChunk& chunk : chunks) {
            if (context_.cancelled) return;
            Report(file, chunk.offset_bytes, chunk.length_bytes, chunk.digest);
          }
        });
    // The caller sees that for itself.
    return absl::IsCancelled(status) ? absl::OkStatus() : Annotate(status, Printable(file));
  }

  // What can be cut now, hashed together.
  void ReportAll(const std::string& file, StreamCutter& cutter) {
    chunks_.clear();
    bytes_.clear();
    while (const auto chunk = cutter.Next()) {
      chunks_.push_back(*chunk);
      bytes_.push_back(chunk->bytes);
    }
    digests_.resize(chunks_.size());
    FingerprintMany(options_.digest, bytes_, digests_);
    // Whoever reads it may be in no hurry.
    for (std::size_t index = 0; index < chunks_.size() && !context_.cancelled; ++index) {
      Report(file, chunks_[index].offset_bytes, chunks_[index].bytes.size(), digests_[index]);
    }
  }

  void Report(const std::string& file, std::uint64_t offset_bytes, std::size_t length_bytes,
              const Digest& digest) {
    const std::string hex = DigestToHex(digest, DigestSizeBytes(options_.digest));
    if (context_.reporter.json()) {
      nlohmann::json object = {{"offset", offset_bytes}, {"length", length_bytes}, {"digest", hex}};
      PutBytes(object, "file", file);
      context_.reporter.Json("chunk", std::move(object));
    } else {
      std::string line = absl::StrFormat("%12d %9d  %s", offset_bytes, length_bytes, hex);
      if (name_files_) line += Cat("  ", Printable(file));
      context_.reporter.Result(line);
    }
  }

  Context& context_;
  const Chunker& chunker_;
  const ParallelFileOptions options_;
  const bool name_files_;
  // Of ReportAll.
  std::vector<StreamChunk> chunks_;
  std::vector<std::span<const std::uint8_t>> bytes_;
  std::vector<Digest> digests_;
};

ExitCode Run(Context& context, const ChunkFlags& flags) {
  const absl::StatusOr<CutRule> rule = ParseCutFlags(flags.cut);
  if (!rule.ok()) return FailUsage(context, rule.status());
  const absl::StatusOr<std::unique_ptr<Chunker>> chunker =
      MakeChunkerOf(flags.backend, rule->profile);
  if (!chunker.ok()) return FailUsage(context, Annotate(chunker.status(), "--backend"));
  ParallelFileOptions options;
  options.profile = rule->profile;
  options.backend = flags.backend;
  options.digest = rule->digest;
  options.thread_count = flags.threads;
  FileChunker cutter(context, **chunker, options, flags.files.size() > 1);
  std::size_t failed_count = 0;
  for (const std::string& file : flags.files) {
    if (const absl::Status status = cutter.Run(file); !status.ok()) {
      context.reporter.Error(status);
      ++failed_count;
    }
    if (context.cancelled) return ExitCode::kInterrupted;
  }
  if (failed_count == 0) return ExitCode::kOk;
  return failed_count < flags.files.size() ? ExitCode::kPartial : ExitCode::kFailure;
}

}  // namespace

void AddChunkVerb(Context& context) {
  std::string profiles = "Named profiles:\n";
  for (const NamedProfile& profile : NamedProfiles()) {
    profiles += absl::StrFormat("  %-16s %s\n", ToAbsl(profile.name), ToAbsl(profile.parameters));
  }
  const Verb verb = AddVerb(context, "chunk", "Cut files here, without a server",
                            Cat(kExamples, "\n\n", profiles));
  auto flags = std::make_shared<ChunkFlags>();
  verb.AddOption("files", flags->files, "Files to cut; - is standard input")
      .Required()
      .Check(RefuseEmpty)
      .Type("FILE");
  AddCutOptions(verb, flags->cut, "A named profile, or algorithm:key=value,...",
                "blake3, sha256 or xxh3-128");
  verb.AddOption("--backend", flags->backend,
                 "Kernels that cut: auto, plain, scalar, sse4, avx2, avx512, avx512vbmi, neon")
      .Environment(kBackendVariable)
      .ShowDefault();
  verb.AddOption("--threads", flags->threads, "Threads that cut and hash a file of 128 MiB or more")
      .Range(std::size_t{1}, kMaxThreads)
      .ShowDefault();
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
