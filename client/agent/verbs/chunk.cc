#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/store/durable_file.h"
#include "client/agent/verbs/cut_flags.h"
#include "client/agent/verbs/verbs.h"
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
};

class FileChunker {
 public:
  FileChunker(Context& context, const Chunker& chunker, DigestAlgorithm digest, bool name_files)
      : context_(context), chunker_(chunker), digest_(digest), name_files_(name_files) {}

  absl::Status Run(const std::string& file) {
    const bool standard_input = file == "-";
    const UniqueFd opened(standard_input ? -1 : open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!standard_input && opened.get() < 0) return ErrnoStatus(errno, file);
    const int fd = standard_input ? STDIN_FILENO : opened.get();
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
    cutter.Finish();
    ReportAll(file, cutter);
    return absl::OkStatus();
  }

 private:
  // What can be cut now, hashed together.
  void ReportAll(const std::string& file, StreamCutter& cutter) {
    chunks_.clear();
    bytes_.clear();
    while (const auto chunk = cutter.Next()) {
      chunks_.push_back(*chunk);
      bytes_.push_back(chunk->bytes);
    }
    digests_.resize(chunks_.size());
    FingerprintMany(digest_, bytes_, digests_);
    for (std::size_t index = 0; index < chunks_.size(); ++index) {
      Report(file, chunks_[index], digests_[index]);
    }
  }

  void Report(const std::string& file, const StreamChunk& chunk, const Digest& digest) {
    const std::string hex = DigestToHex(digest, DigestSizeBytes(digest_));
    if (context_.reporter.json()) {
      nlohmann::json object = {
          {"offset", chunk.offset_bytes}, {"length", chunk.bytes.size()}, {"digest", hex}};
      PutBytes(object, "file", file);
      context_.reporter.Json("chunk", std::move(object));
    } else {
      std::string line =
          absl::StrFormat("%12d %9d  %s", chunk.offset_bytes, chunk.bytes.size(), hex);
      if (name_files_) line += Cat("  ", Printable(file));
      context_.reporter.Result(line);
    }
  }

  Context& context_;
  const Chunker& chunker_;
  const DigestAlgorithm digest_;
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
  FileChunker cutter(context, **chunker, rule->digest, flags.files.size() > 1);
  bool failed = false;
  for (const std::string& file : flags.files) {
    if (const absl::Status status = cutter.Run(file); !status.ok()) {
      context.reporter.Error(status);
      failed = true;
    }
    if (context.cancelled) return ExitCode::kInterrupted;
  }
  if (!failed) return ExitCode::kOk;
  return flags.files.size() > 1 ? ExitCode::kPartial : ExitCode::kFailure;
}

}  // namespace

void AddChunkVerb(Context& context) {
  std::string profiles = "Named profiles:\n";
  for (const NamedProfile& profile : NamedProfiles()) {
    profiles += absl::StrFormat("  %-16s %s\n", ToAbsl(profile.name), ToAbsl(profile.parameters));
  }
  CLI::App& verb = AddVerb(context, "chunk", "Cut files here, without a server",
                           Cat(kExamples, "\n\n", profiles));
  auto flags = std::make_shared<ChunkFlags>();
  verb.add_option("files", flags->files, "Files to cut; - is standard input")
      ->required()
      ->check(RefuseEmpty, "")
      ->type_name("FILE");
  AddCutOptions(verb, flags->cut, "A named profile, or algorithm:key=value,...",
                "blake3, sha256 or xxh3-128");
  verb.add_option("--backend", flags->backend,
                  "Kernels that cut: auto, plain, scalar, sse4, avx2, avx512, avx512vbmi, neon")
      ->envname(kBackendVariable)
      ->capture_default_str();
  verb.callback(
      [&context, flags] { context.run = [&context, flags] { return Run(context, *flags); }; });
}

}  // namespace kerf::agent
