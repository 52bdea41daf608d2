#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "base/request_id.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/backup/engine.h"
#include "client/agent/backup/standard_input.h"
#include "client/agent/backup/stream_command.h"
#include "client/agent/verbs/compression_flag.h"
#include "client/agent/verbs/index_warning.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/retry_flag.h"
#include "client/agent/verbs/retry_notice.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/cut_flags.h"
#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"
#include "client/cpp/server_index.h"
#include "client/fs/scanner.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/chunking.grpc.pb.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf backup ~/documents --store /backup\n"
    "      with a kerfd of its own, unless one serves this machine\n"
    "  kerf backup ~/documents --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf backup /etc /home --store /backup --exclude '*.o' --exclude /home/*/.cache\n"
    "  kerf backup /srv --store /backup --server fronts.example:7461 --direct\n"
    "  kerf backup --store /backup --stdin-filename db.sql --stdin-from-command -- pg_dump db\n"
    "      what pg_dump writes, unless it fails: then there is no snapshot\n"
    "  pg_dump db | kerf backup --stdin-filename db.sql --store /backup\n"
    "      a pipe cannot tell: where pg_dump fails in the middle there is a snapshot of the half\n"
    "  kerf backup /srv --store /backup --json | jq .\n"
    "  kerf backup /archive --store /backup --compression max --readers 2 --read-order physical\n"
    "      as small as can be, and from a rotating disk";

constexpr std::chrono::seconds kCapabilitiesDeadline{5};

struct BackupFlags {
  std::vector<std::string> paths;
  std::string store;
  ServerFlags server;
  // Empty: a new store's default, and whatever a store has.
  std::string profile;
  std::string digest;
  std::string host;
  std::vector<std::string> excludes;
  std::vector<std::string> exclude_files;
  bool one_file_system = false;
  bool pseudo_file_systems = false;
  bool ignore_device = false;
  std::string stdin_filename;
  bool stdin_from_command = false;
  bool force = false;
  unsigned streams = 0;
  unsigned readers = kDefaultReaders;
  std::string read_order = "inode";
  std::string compression = kCompression;
  // Empty: as KnownChunks has it.
  std::string chunk_list_memory;
  RetryFlag retry_for;
  std::string cut = "remote";
  std::string shared_memory = "auto";
  bool direct = false;
};

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

absl::StatusOr<std::string> AbsolutePathOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (!error) return absolute.lexically_normal().string();
  // As where the current folder was removed.
  return absl::NotFoundError(Cat("cannot tell where ", path, " is: ", error.message()));
}

// What this process has open, by one of the names for it: a snapshot would have the symlink alone.
bool IsOwnDescriptor(const std::string& path) {
  for (const char* name : {"/dev/stdin", "/dev/stdout", "/dev/stderr"}) {
    if (path == name) return true;
  }
  return path.starts_with("/proc/") && std::filesystem::path(path).parent_path().filename() == "fd";
}

// Sorted and each once, so that however they are written the same paths have the same history. What
// does not exist stays as it is written: the scan reports it.
absl::StatusOr<std::vector<std::string>> CanonicalPaths(const std::vector<std::string>& paths) {
  std::vector<std::string> result;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> resolved = ResolveRoot(path);
    if (absl::IsInvalidArgument(resolved.status())) return resolved.status();
    if (!resolved.ok()) resolved = AbsolutePathOf(path);
    if (!resolved.ok()) return resolved.status();
    if (IsOwnDescriptor(*resolved)) {
      return absl::InvalidArgumentError(
          Cat("cannot back up ", path, ", which is a pipe or file that this program has open: ",
              "leave it out, and give what it gives a name with --stdin-filename"));
    }
    result.push_back(*std::move(resolved));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

absl::Status AddPaths(const BackupFlags& flags, BackupOptions& options) {
  if (flags.stdin_from_command) {
    return absl::InvalidArgumentError(
        "--stdin-from-command needs --stdin-filename NAME too: what the command's output is called "
        "in the snapshot");
  }
  if (flags.paths.empty()) {
    return absl::InvalidArgumentError(
        "there is nothing to back up: give a PATH, or --stdin-filename NAME");
  }
  for (const std::string& path : flags.paths) {
    if (path.empty()) return absl::InvalidArgumentError(Cat("PATH: ", RefuseEmpty(path)));
  }
  KERF_ASSIGN_OR_RETURN(options.paths, CanonicalPaths(flags.paths));
  return absl::OkStatus();
}

// What stands behind the mark, word for word.
std::vector<std::string> CommandOf(const Context& context) {
  const std::vector<std::string>& all = context.arguments;
  const auto mark = std::find(all.begin(), all.end(), "--");
  if (mark == all.end()) return {};
  return {mark + 1, all.end()};
}

absl::Status CheckCommand(const Context& context) {
  const std::vector<std::string> command = CommandOf(context);
  if (!command.empty() && !command.front().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--stdin-from-command runs what stands behind --, and there is no command: as in `kerf "
      "backup --stdin-filename db.sql --stdin-from-command -- pg_dump db`");
}

// What is to be backed up.
absl::Status AddSources(const Context& context, const BackupFlags& flags, BackupOptions& options) {
  if (flags.stdin_filename.empty()) return AddPaths(flags, options);
  KERF_RETURN_IF_ERROR(CheckStreamName(flags.stdin_filename));
  options.paths = {"/" + flags.stdin_filename};
  // It is started once all else is well (StartCommand).
  if (flags.stdin_from_command) return CheckCommand(context);
  if (!flags.paths.empty()) {
    return absl::InvalidArgumentError(
        "with --stdin-filename standard input is all that is backed up: leave the paths out; a "
        "command is run with --stdin-from-command");
  }
  if (isatty(STDIN_FILENO) != 0) {
    return absl::InvalidArgumentError(
        "standard input is a terminal: --stdin-filename backs up what a program writes to it, as "
        "in `pg_dump db | kerf backup --stdin-filename db.sql`");
  }
  options.stream_fd = STDIN_FILENO;
  return absl::OkStatus();
}

// Null: no command was asked for.
absl::StatusOr<std::unique_ptr<StreamCommand>> StartCommand(const Context& context,
                                                            const BackupFlags& flags,
                                                            BackupOptions& options) {
  if (!flags.stdin_from_command) return nullptr;
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<StreamCommand> command,
                        StreamCommand::Start(CommandOf(context)));
  options.stream_fd = command->output();
  StreamCommand* const started = command.get();
  options.stream_end = [started](const std::function<absl::Status()>& failure) {
    return started->AwaitSuccess(failure);
  };
  return command;
}

absl::StatusOr<BackupOptions> MakeOptions(const Context& context, const BackupFlags& flags,
                                          const std::string& server) {
  BackupOptions options;
  // Its index changes with each chunk of this very backup, and can be made again from the store.
  if (context.own_kerfd != nullptr) options.skip_directories = {context.own_kerfd->folder()};
  KERF_RETURN_IF_ERROR(AddSources(context, flags, options));
  KERF_ASSIGN_OR_RETURN(options.servers, client::ParseServers(server));
  // It has answered before any stream is opened (StartOwnKerfd), and is started anew where it is
  // lost.
  options.server_was_met = context.own_kerfd != nullptr;
  if (const OwnKerfd* const own = context.own_kerfd.get(); own != nullptr) {
    options.server_end = [own] { return own->GivenUp(); };
  }
  KERF_ASSIGN_OR_RETURN(options.retry.time, flags.retry_for.Parse());
  for (const std::string& pattern : flags.excludes) {
    KERF_RETURN_IF_ERROR(options.excludes.Add(pattern));
  }
  for (const std::string& file : flags.exclude_files) {
    KERF_RETURN_IF_ERROR(options.excludes.AddFile(file));
  }
  options.one_file_system = flags.one_file_system;
  options.pseudo_file_systems = flags.pseudo_file_systems;
  options.ignore_device = flags.ignore_device;
  options.force = flags.force;
  options.direct = flags.direct;
  KERF_ASSIGN_OR_RETURN(options.who_cuts, ParseWhoCuts(flags.cut));
  options.shares_memory = flags.shared_memory == "auto";
  options.lane_count = flags.streams;
  options.reader_count = flags.readers;
  KERF_ASSIGN_OR_RETURN(options.read_order, ParseReadOrder(flags.read_order));
  KERF_ASSIGN_OR_RETURN(options.compression, ParseCompression(flags.compression));
  if (!flags.chunk_list_memory.empty()) {
    const absl::StatusOr<std::uint64_t> bytes = ParseByteSize(flags.chunk_list_memory);
    if (!bytes.ok()) return Annotate(bytes.status(), "--chunk-list-memory");
    options.known.memory_bytes = *bytes;
  }
  options.host = flags.host.empty() ? HostName() : flags.host;
  if (const char* user = std::getenv("USER")) options.user = user;
  return options;
}

nlohmann::json Summary(const BackupResult& result, double seconds) {
  const store::v1::SnapshotStats& stats = result.snapshot.stats();
  nlohmann::json pseudo_directories = nlohmann::json::array();
  for (const std::string& path : result.pseudo_directories) {
    PutBytes(pseudo_directories.emplace_back(nlohmann::json::object()), "path", path);
  }
  return {{"snapshot", result.snapshot.id()},
          {"parent", result.snapshot.parent()},
          {"files", stats.file_count()},
          {"directories", stats.directory_count()},
          {"entries", stats.entry_count()},
          {"unchanged_files", stats.unchanged_file_count()},
          {"total_bytes", stats.total_bytes()},
          {"chunks", result.chunks.chunks},
          {"new_chunks", result.chunks.new_chunks},
          {"new_bytes", result.chunks.new_bytes},
          {"new_metadata_chunks", result.chunks.new_metadata_chunks},
          {"new_metadata_bytes", result.chunks.new_metadata_bytes},
          {"stored_bytes", stats.stored_bytes()},
          {"healed_chunks", result.chunks.healed_chunks},
          {"stale_chunks", result.chunks.stale_chunks},
          {"by_place", result.went_by_place},
          {"warnings", result.warning_count},
          {"index_warning", std::string(MessageOf(result.index_warning))},
          {"index_warning_reason", client::ReasonOfCall(result.index_warning)},
          {"index_warning_request_id", client::RequestIdOf(result.index_warning)},
          {"resumes", result.streams.resumed},
          {"streams", result.streams.opened},
          {"direct_streams", result.streams.direct},
          {"local_cut_streams", result.streams.cut_here},
          {"shared_memory_streams", result.streams.shared},
          {"detour", std::string(MessageOf(result.streams.detour))},
          {"pseudo_directories", std::move(pseudo_directories)},
          {"seconds", seconds}};
}

void TellOfSlowFile(Reporter& reporter, const std::string& path) {
  if (reporter.json()) {
    nlohmann::json object = {{"seconds", kSlowFileAfter.count()}};
    PutBytes(object, "path", path);
    reporter.Json("slow_file", std::move(object));
    return;
  }
  reporter.Notice(Cat(path, " has not answered for ", kSlowFileAfter.count(),
                      " s; the backup waits for it (leave it out with --exclude if what is behind "
                      "its file system is gone)"));
}

// What to do when a server was away for too long.
absl::Status AdviseAfterRetries(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  const std::string text =
      Cat(MessageOf(status), "; what is stored is kept: run the backup again when a server ",
          "can be reached, or give it longer with --retry-for");
  return client::OfCall({status.code(), ToAbsl(text)}, status);
}

// Of a store of which no list was made, though nobody had bounded it or because somebody had.
void TellOfPlaces(Reporter& reporter, bool is_list_bounded) {
  reporter.Line(Cat(
      "  store     has more chunks than ",
      is_list_bounded ? "may be listed (--chunk-list-memory)" : "this machine's memory can list",
      ": each was looked for where the index says that it is"));
  if (!is_list_bounded) {
    reporter.Line("            restore, verify and gc refuse it here: they need more memory");
  }
}

void TellOfPseudo(Reporter& reporter, const std::vector<std::string>& directories) {
  if (directories.empty()) return;
  constexpr std::size_t kMaxNamed = 4;
  std::string names;
  for (std::size_t index = 0; index < std::min(directories.size(), kMaxNamed); ++index) {
    names += Cat(index == 0 ? "" : ", ", Printable(directories[index]));
  }
  if (directories.size() > kMaxNamed)
    names += Cat(" and ", directories.size() - kMaxNamed, " more");
  reporter.Line(Cat("  left out  what the kernel makes up in ", names,
                    " (--pseudo-file-systems takes it in)"));
}

void Print(Reporter& reporter, const BackupResult& result, double seconds, bool is_index_behind,
           bool is_list_bounded) {
  const store::v1::SnapshotStats& stats = result.snapshot.stats();
  const double rate = static_cast<double>(stats.total_bytes()) / std::max(seconds, 1e-3);
  reporter.Line(Cat("snapshot ", result.snapshot.id(), " is complete"));
  reporter.Line(Cat("  files     ", FormatCount(stats.file_count()), ", ",
                    FormatByteSize(stats.total_bytes()), "; ",
                    FormatCount(stats.unchanged_file_count()), " unchanged"));
  reporter.Line(Cat("  new       ", FormatCounted(stats.new_chunk_count(), "chunk"), ", ",
                    FormatByteSize(stats.new_bytes()), ", stored in ",
                    FormatByteSize(stats.stored_bytes())));
  reporter.Line(Cat("  time      ", absl::StrFormat("%.2f s, ", seconds),
                    FormatByteSize(static_cast<std::uint64_t>(rate)), "/s"));
  if (result.streams.resumed > 0) {
    reporter.Line(Cat("  streams   ", FormatCounted(result.streams.resumed, "resume"),
                      " after a lost connection"));
  }
  if (!result.streams.detour.ok()) {
    reporter.Line(Cat("  direct    ", FormatCount(result.streams.direct), " of ",
                      FormatCounted(result.streams.opened, "stream"),
                      " went straight to a worker: ", MessageOf(result.streams.detour)));
  }
  if (result.chunks.healed_chunks > 0) {
    reporter.Line(Cat("  index     was told again of ",
                      FormatCounted(result.chunks.healed_chunks, "chunk"),
                      " that the store has and it did not know"));
  }
  if (result.went_by_place) TellOfPlaces(reporter, is_list_bounded);
  TellOfPseudo(reporter, result.pseudo_directories);
  if (result.warning_count > 0) {
    reporter.Line(Cat("  partial   ", FormatCounted(result.warning_count, "warning")));
  }
  // Else it was a warning already.
  if (!result.index_warning.ok() && !is_index_behind) {
    reporter.Notice(
        Cat("the index does not know all of these chunks yet; a backup that meets them "
            "again tells it (",
            DescribeFailure(result.index_warning), ")"));
  }
}

// Hints are kept of digests that nobody can forge only: no server has any for such a store.
absl::Status CheckCriterionDigest(const UploadRule& rule) {
  if (rule.digest != DigestAlgorithm::kXxh3_128) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("--profile ", FormatUploadProfile(rule.profile),
          " needs --digest blake3 or sha256: no server accepts it with xxh3-128; leave out the '+' "
          "and what stands behind it, or choose another digest. No store was made"));
}

// A store keeps the profile that it was made with: none is made with one that the server refuses.
absl::Status CheckServerCuts(const client::ServerAddress& server, const UploadProfile& profile) {
  KERF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, client::OpenChannel(server));
  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + kCapabilitiesDeadline);
  const std::string request_id = NewRequestId();
  call.AddMetadata(kRequestIdMetadata, request_id);
  v1::GetCapabilitiesResponse capabilities;
  const grpc::Status asked =
      v1::ChunkingService::NewStub(channel)->GetCapabilities(&call, {}, &capabilities);
  KERF_RETURN_IF_ERROR(client::WithRequestId(client::FromGrpc(asked), request_id));
  const std::string_view criterion = CriterionNames()[static_cast<std::size_t>(*profile.criterion)];
  for (const std::string& known : capabilities.criteria()) {
    if (known == criterion) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      Cat("the server accepts no cuts by '", criterion,
          "': it keeps no hints (start kerfd with --hint-memory 64M); no store was made"));
}

absl::StatusOr<UploadRule> ParseRule(const BackupFlags& flags) {
  CutFlags cut;
  if (!flags.profile.empty()) cut.profile = flags.profile;
  if (!flags.digest.empty()) cut.digest = flags.digest;
  return ParseUploadFlags(cut);
}

// A store keeps what it was made with: who asks for something else is not to believe that he gets
// it.
absl::Status CheckStoreRule(const Store& store, const BackupFlags& flags, const UploadRule& rule) {
  const std::string& profile = store.config().profile();
  const bool same_profile = flags.profile.empty() || FormatUploadProfile(rule.profile) == profile;
  const bool same_digest = flags.digest.empty() || rule.digest == store.digest_algorithm();
  if (same_profile && same_digest) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("the store ", store.directory(), " has --profile ", profile,
                                        " and --digest ",
                                        DigestAlgorithmName(store.digest_algorithm()),
                                        " for good: leave both out, or make another store"));
}

// How the run ends if a store would have to be made, and must not be. `is_new`: it has to be.
std::optional<ExitCode> RefuseNewStore(Context& context, const client::ServerAddress& server,
                                       const std::string& store_path, const UploadRule& rule,
                                       bool& is_new) {
  is_new = absl::IsNotFound(Store::Open(store_path).status());
  if (!is_new) return std::nullopt;
  const absl::Status made_status = CheckStoreMayBeMade(store_path);
  if (!made_status.ok()) return FailWith(context, made_status);
  if (!rule.profile.criterion) return std::nullopt;
  const absl::Status digest_status = CheckCriterionDigest(rule);
  if (!digest_status.ok()) return FailUsage(context, digest_status);
  const absl::Status status = CheckServerCuts(server, rule.profile);
  if (!status.ok()) return FailWithServer(context, status, server);
  return std::nullopt;
}

absl::StatusOr<BackupResult> BackupWithProgress(Reporter& reporter, Store& store,
                                                const BackupOptions& options) {
  BackupProgress progress;
  const ProgressDisplay display(reporter, "backup", [&progress] {
    ProgressState state;
    state.done_files = progress.done_files;
    state.total_files = progress.scanned_files;
    state.done_bytes = progress.done_bytes;
    state.total_bytes = progress.scanned_bytes;
    state.counting = !progress.scan_done;
    state.known_bytes = progress.known_bytes;
    state.new_bytes = progress.new_bytes;
    state.has_saved = true;
    return state;
  });
  return RunBackup(store, options, progress);
}

// Over one connection for all calls.
KnownChunks::LookUp MakeLookUp(const client::ServerAddress& server, const Store& store,
                               std::chrono::milliseconds patience) {
  auto channels = std::make_shared<std::vector<std::shared_ptr<grpc::Channel>>>();
  return [&server, &store, patience, channels](
             std::uint64_t epoch, std::span<const Digest> digests, std::uint64_t& index_epoch,
             client::CallCancellation& cancellation) -> absl::StatusOr<std::vector<IndexAnswer>> {
    if (channels->empty()) {
      KERF_ASSIGN_OR_RETURN(*channels, client::OpenChannels(server, &cancellation));
    }
    client::ServerIndex index(*channels, store.config().id(), store.digest_algorithm(),
                              {&cancellation, patience});
    auto answers = index.Lookup(epoch, digests);
    index_epoch = index.looked_up_epoch();
    return answers;
  };
}

decltype(BackupOptions::commit_late) MakeCommitLate(const client::ServerAddress& server,
                                                    const Store& store) {
  return [&server, &store](std::uint64_t epoch, std::span<const StoredChunk> chunks,
                           client::CallCancellation& cancellation) {
    // Of those that can be reached now.
    const auto channels = client::OpenChannels(server, &cancellation);
    if (!channels.ok()) return channels.status();
    // Whoever asks tries again himself, and says in the end what the last answer was.
    client::ServerIndex index(*channels, store.config().id(), store.digest_algorithm(),
                              {&cancellation, /*patience=*/std::chrono::milliseconds(0)});
    return index.Commit(epoch, chunks);
  };
}

void AskForPlaces(Reporter& reporter, const client::ServerAddress& server, const Store& store,
                  BackupOptions& options) {
  options.known.look_up = MakeLookUp(server, store, options.retry.time);
  options.known.on_look_up_failed = [&reporter](const absl::Status& status) {
    reporter.Notice(Cat("the index cannot be asked for the chunks of files that have not changed: ",
                        "they are read (", DescribeFailure(status), ")"));
  };
}

ExitCode Run(Context& context, const BackupFlags& flags) {
  const auto start = std::chrono::steady_clock::now();
  Reporter& reporter = context.reporter;
  const absl::StatusOr<UploadRule> rule = ParseRule(flags);
  if (!rule.ok()) return FailUsage(context, rule.status());
  const auto server = ServerOf(context, flags.server);
  if (!server.ok()) return FailUsage(context, server.status());
  absl::StatusOr<BackupOptions> options = MakeOptions(context, flags, server->text);
  if (!options.ok()) return FailUsage(context, options.status());
  options->tls = server->tls;
  const absl::StatusOr<std::string> store_path = AbsolutePathOf(flags.store);
  if (!store_path.ok()) return FailUsage(context, store_path.status());
  const absl::Status started = StartOwnKerfd(context);
  if (!started.ok()) return FailWith(context, started);
  bool is_new = false;
  if (const auto refused = RefuseNewStore(context, *server, *store_path, *rule, is_new)) {
    return *refused;
  }
  const absl::StatusOr<std::unique_ptr<Store>> store =
      Store::OpenOrCreate(*store_path, FormatUploadProfile(rule->profile), rule->digest);
  if (!store.ok()) return FailWith(context, store.status());
  const absl::Status same_rule = CheckStoreRule(**store, flags, *rule);
  if (!same_rule.ok()) return FailUsage(context, same_rule);
  if (is_new) SayStoreWasMade(context, **store);
  WarnOfFlaws(context, **store);
  WarnOfSetBack(context, **store);
  options->cancelled = options->known.cancelled = &context.cancelled;
  options->on_warning = [&reporter](const std::string& path, const absl::Status& status) {
    reporter.Warning(path, status);
  };
  options->on_slow_file = [&reporter](const std::string& path) { TellOfSlowFile(reporter, path); };
  std::atomic<std::uint64_t> parity_failure_count = 0;
  options->on_parity_failed = [&](const absl::Status& status) {
    ++parity_failure_count;
    reporter.Warning(flags.store, status);
  };
  std::atomic<bool> was_lost = false;
  options->on_lost = [&](const client::ResumingUpload::Lost& lost) {
    was_lost = true;
    TellOfRetry(reporter, "connection lost", lost);
  };
  options->commit_late = MakeCommitLate(*server, **store);
  AskForPlaces(reporter, *server, **store, *options);
  const auto command = StartCommand(context, flags, *options);
  if (!command.ok()) return FailWith(context, command.status());

  const absl::StatusOr<BackupResult> result = BackupWithProgress(reporter, **store, *options);
  if (!result.ok()) {
    const absl::Status& status = result.status();
    return FailWithServer(context, was_lost ? AdviseAfterRetries(status) : status, *server);
  }
  RememberStore(**store);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Who is in a worker's place is not a matter of networks.
  if (client::IsTlsTrouble(result->streams.detour))
    reporter.Warning("--direct", result->streams.detour);
  const bool is_index_behind =
      IsIndexBehind(result->index_warning, **store, result->snapshot.store_epoch());
  if (is_index_behind) WarnOfIndex(reporter, server->text, result->index_warning);
  reporter.Json("summary", Summary(*result, seconds));
  Print(reporter, *result, seconds, is_index_behind, !flags.chunk_list_memory.empty());
  const bool is_partial = result->warning_count > 0 || is_index_behind || parity_failure_count > 0;
  return is_partial ? ExitCode::kPartial : ExitCode::kOk;
}

// What goes to the server, and which way.
void AddTransferOptions(const Verb& verb, BackupFlags& flags) {
  verb.AddOption(
          "--cut", flags.cut,
          "Where files are cut and their chunks fingerprinted: remote, by the server; local, "
          "by this program, which then sends no file, only what its chunks are called; auto: "
          "local, where this machine has fast kernels for the profile and the server no "
          "GPU. An older server cuts itself. The snapshot is the same with each")
      .Choices({"auto", "remote", "local"})
      .ShowDefault();
  verb.AddOption("--shared-memory", flags.shared_memory,
                 "What goes to a server that cuts, is on this machine and at a unix socket: auto, "
                 "where the bytes lie in memory that both see, if it takes that; off, the bytes. "
                 "The snapshot is the same with each")
      .Choices({"auto", "off"})
      .ShowDefault();
  verb.AddFlag("--direct", flags.direct,
               "If the server is a front: send the data past it, straight to the workers that it "
               "names; through it where a worker cannot be reached from here");
}

void AddChunkListOption(const Verb& verb, std::string& memory) {
  verb.AddOption("--chunk-list-memory", memory,
                 "What this program may take to remember which chunks the store has, as 512M or "
                 "4G: 64 bytes each are listed in half of it. In a store of more each chunk is "
                 "looked for where the index says that it is, and stored again where that does not "
                 "know it; 0: in any store. If it is left out, the list may take three quarters of "
                 "the machine's memory")
      .Check(RefuseEmpty)
      .Type("SIZE");
}

// What is backed up that is no path, and what is left out of paths.
void AddSourceOptions(const Verb& verb, BackupFlags& flags) {
  verb.AddOption("--stdin-filename", flags.stdin_filename,
                 "Back up standard input instead, to its end, as a file of this name at the root "
                 "of the snapshot. In a pipe nobody can tell whether that is all: see "
                 "--stdin-from-command")
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddFlag("--stdin-from-command", flags.stdin_from_command,
               "With --stdin-filename: run the command that stands behind --, and back up what it "
               "writes to its standard output. If it ends with another exit code than 0 the backup "
               "fails, and there is no snapshot");
  // One pattern each: what stands behind it is a path, and "[0-9]" is no list.
  verb.AddOption("--exclude", flags.excludes, "Leave out what matches the pattern (repeatable)")
      .Type("GLOB")
      .Repeat();
  verb.AddOption("--exclude-from", flags.exclude_files, "Read such patterns, one a line")
      .Check(RefuseEmpty)
      .Type("FILE")
      .Repeat();
  verb.AddFlag("--one-file-system", flags.one_file_system, "Do not go into other file systems");
  verb.AddFlag("--pseudo-file-systems", flags.pseudo_file_systems,
               "Go below PATH also into file systems whose files the kernel makes up, as /proc, "
               "/sys and /dev/pts, of which some are endless. Else their mount points are kept, as "
               "empty folders. A PATH in one is backed up in any case");
}

}  // namespace

void AddBackupVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "backup", "Back up files and folders as a new snapshot", kExamples);
  auto flags = std::make_shared<BackupFlags>();
  // Behind -- also a command, whose arguments may be empty.
  verb.AddOption("paths", flags->paths, "What to back up").Type("PATH");
  AddStoreOption(verb, flags->store);
  AddServerOption(verb, flags->server);
  AddSourceOptions(verb, *flags);
  verb.AddFlag("--ignore-device", flags->ignore_device,
               "Do not read a file again because its file system has another device number, as a "
               "snapshot of a file system has at each mount. Safe where all that is ever mounted "
               "there are states of one file system");
  verb.AddFlag(
      "--force", flags->force,
      "Read every file, even one that looks unchanged. Do so now and then: what is written "
      "through mmap may move no time of its file");
  verb.AddOption("--profile", flags->profile,
                 Cat("How a new store cuts, ", kDefaultProfileName,
                     " if it is left out: see `kerf chunk --help`. With +ff, +ff-rwt or +ff-mt "
                     "behind it a server with hints goes where earlier versions were cut"))
      .Check(RefuseEmpty);
  verb.AddOption("--digest", flags->digest,
                 "What a new store names chunks by: blake3 (if it is left out), sha256 or xxh3-128")
      .Check(RefuseEmpty);
  verb.AddOption("--host", flags->host, "Name of this machine in the snapshot")
      .Check(RefuseEmpty)
      .Type("NAME");
  verb.AddOption("--streams", flags->streams, "Upload streams at once; 0: one for each core")
      .Range(0u, kMaxLanes)
      .ShowDefault();
  verb.AddOption(
          "--readers", flags->readers,
          "Files that are read ahead at once; 0: none is. A rotating disk may be faster with "
          "1 or 2")
      .Range(0u, kMaxReaders)
      .ShowDefault();
  verb.AddOption("--read-order", flags->read_order,
                 "The order in which files are read ahead: path, inode, or physical, as they lie "
                 "on the disk, which pays on a rotating one. The snapshot is the same with each")
      .Choices({"path", "inode", "physical"})
      .ShowDefault();
  AddCompressionOption(verb, flags->compression);
  AddChunkListOption(verb, flags->chunk_list_memory);
  AddRetryOption(verb,
                 "How long a lost server is tried again without progress before the backup ends",
                 flags->retry_for);
  AddTransferOptions(verb, *flags);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
