#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <span>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/agent/store/durable_file.h"
#include "client/agent/verbs/verbs.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/stream_cutter.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf chunk disk.img --profile fastcdc2020-8k\n"
    "  kerf chunk a.tar b.tar --profile fastcdc2020:min=2048,avg=8192,max=32768,level=1 --json\n"
    "  tar c /etc | kerf chunk - --digest sha256";

struct ChunkFlags {
  std::vector<std::string> files;
  std::string profile = std::string(kDefaultProfileName);
  std::string digest = "blake3";
};

class FileChunker {
 public:
  FileChunker(Context& context, const Chunker& chunker, DigestAlgorithm digest, bool name_files)
      : context_(context), chunker_(chunker), digest_(digest), name_files_(name_files) {}

  absl::Status Run(const std::string& file) {
    const bool standard_input = file == "-";
    const OwnedFd opened(standard_input ? -1 : open(file.c_str(), O_RDONLY | O_CLOEXEC));
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
      while (const auto chunk = cutter.Next()) Report(file, *chunk);
    }
    cutter.Finish();
    while (const auto chunk = cutter.Next()) Report(file, *chunk);
    return absl::OkStatus();
  }

 private:
  void Report(const std::string& file, const StreamChunk& chunk) {
    const std::string hex =
        DigestToHex(Fingerprint(digest_, chunk.bytes), DigestSizeBytes(digest_));
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
};

ExitCode Run(Context& context, const ChunkFlags& flags) {
  const absl::StatusOr<Profile> profile = ParseProfile(flags.profile);
  if (!profile.ok()) {
    context.reporter.Error(profile.status());
    return ExitCode::kUsage;
  }
  const auto digest = ParseDigestAlgorithm(flags.digest);
  if (!digest.has_value()) {
    context.reporter.Error(absl::InvalidArgumentError(
        Cat("'", flags.digest, "' is no digest: write blake3, sha256 or xxh3-128")));
    return ExitCode::kUsage;
  }
  const std::unique_ptr<Chunker> chunker = MakeChunker(*profile);
  FileChunker cutter(context, *chunker, *digest, flags.files.size() > 1);
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
      ->type_name("FILE...");
  verb.add_option("--profile", flags->profile, "A named profile, or algorithm:key=value,...")
      ->capture_default_str();
  verb.add_option("--digest", flags->digest, "blake3, sha256 or xxh3-128")->capture_default_str();
  verb.callback(
      [&context, flags] { context.run = [&context, flags] { return Run(context, *flags); }; });
}

}  // namespace kerf::agent
