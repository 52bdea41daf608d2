#include <memory>
#include <random>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/cut_flags.h"
#include "client/agent/verbs/program_folder.h"
#include "client/agent/verbs/verbs.h"
#include "client/lab/bench/raw_peer.h"
#include "client/lab/bench/report.h"
#include "client/lab/bench/service_bench.h"
#include "client/lab/bench/service_options.h"

namespace kerf::agent {
namespace {

using bench::ServiceOptions;

constexpr char kExamples[] =
    "  kerf bench service\n"
    "  kerf bench service --rounds 9 --tcp --json > service.json\n"
    "  kerf bench service --front --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --duplicate 100 --idle-streams 0 --busy-streams 0\n"
    "  kerf bench service --server unix:/run/kerfd.sock     a kerfd that runs; leaves entries of "
    "a\n"
    "                                                       repository of its own in its index\n\n"
    "CPU seconds are user plus system time of all processes, the front's and kerfd's together. A "
    "GB "
    "is\n10^9 bytes.";

constexpr std::uint64_t kMaxPassBytes = 16 * kGiB;

struct ServiceFlags {
  std::string profile = std::string(kDefaultProfileName);
  std::string digest = "blake3";
  std::string size = "256M";
  std::string message = "512K";
  std::string busy_size = "16M";
  std::uint64_t seed = 0;
  ServiceOptions options;
};

absl::StatusOr<ServiceOptions> ReadOptions(const ServiceFlags& flags) {
  ServiceOptions options = flags.options;
  KERF_ASSIGN_OR_RETURN(options.profile, ParseProfile(flags.profile));
  KERF_ASSIGN_OR_RETURN(options.digest, ParseDigestFlag(flags.digest));
  KERF_ASSIGN_OR_RETURN(options.pass_bytes, ParseSizeFlag("--size", flags.size, 1, kMaxPassBytes));
  KERF_ASSIGN_OR_RETURN(options.busy_stream_bytes,
                        ParseSizeFlag("--busy-size", flags.busy_size, 1, kMaxPassBytes));
  KERF_ASSIGN_OR_RETURN(
      const std::uint64_t message_bytes,
      ParseSizeFlag("--message", flags.message, bench::kMinMessageBytes, bench::kMaxMessageBytes));
  options.message_bytes = static_cast<std::uint32_t>(message_bytes);
  if (options.kerfd_path.empty()) options.kerfd_path = Cat(ProgramFolder(), "kerfd");
  // Two runs against one server must not find each other's chunks.
  options.seed = flags.seed != 0 ? flags.seed : std::random_device()();
  return options;
}

ExitCode Run(Context& context, const ServiceFlags& flags) {
  const absl::StatusOr<ServiceOptions> options = ReadOptions(flags);
  if (!options.ok()) {
    context.reporter.Error(options.status());
    return ExitCode::kUsage;
  }
  Reporter& reporter = context.reporter;
  const auto result =
      bench::RunServiceBench(*options, context.cancelled, [&reporter](std::string_view doing) {
        if (reporter.shows_progress() && reporter.live_progress()) reporter.Progress(doing);
      });
  reporter.Progress("");
  if (!result.ok()) return FailWith(context, result.status());
  reporter.Json("summary", bench::ReportJson(*options, *result));
  for (const std::string& line : bench::ReportLines(*options, *result)) reporter.Result(line);
  return ExitCode::kOk;
}

// The other end of the raw stream, started by `kerf bench service` itself.
void AddRawPeer(Context& context, const Verb& bench_verb) {
  const Verb verb = bench_verb.AddHiddenVerb("raw-peer");
  auto listen = std::make_shared<std::string>();
  auto ready_file = std::make_shared<std::string>();
  verb.AddOption("--listen", *listen, "").Required();
  verb.AddOption("--ready-file", *ready_file, "").Required();
  verb.OnRun([&context, listen, ready_file] {
    const absl::Status status = bench::ServeRaw(*listen, *ready_file);
    return status.ok() ? ExitCode::kOk : FailWith(context, status);
  });
}

}  // namespace

void AddBenchService(Context& context, const Verb& bench_verb) {
  const Verb verb = bench_verb.AddVerb(
      "service", "kerfd beside a raw gRPC stream, and beside cutting and hashing alone", kExamples);
  auto flags = std::make_shared<ServiceFlags>();
  ServiceOptions& options = flags->options;
  options.stream_counts = {1, 8};
  options.rounds = 5;
  options.idle_streams = 1000;
  options.busy_streams = 100;
  verb.AddOption("--kerfd", options.kerfd_path, "The program to start; else that beside kerf")
      .Check(RefuseEmpty)
      .Type("PATH");
  verb.AddOption("--server", options.server, "A kerfd that runs, instead of starting one")
      .Check(RefuseEmpty)
      .Type("ADDR");
  verb.AddFlag("--front", options.front,
               "Also through a front (kerfd --role front) that is started");
  verb.AddFlag("--tcp", options.tcp, "Loopback TCP instead of a unix socket");
  verb.AddOption("--profile", flags->profile, "A named profile, or algorithm:key=value,...")
      .ShowDefault();
  verb.AddOption("--digest", flags->digest, "blake3, sha256 or xxh3-128").ShowDefault();
  verb.AddOption("--size", flags->size, "Bytes of one pass, over all its streams")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--message", flags->message, "File data in one message")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--streams", options.stream_counts, "Numbers of streams at once")
      .Delimiter(',')
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--rounds", options.rounds, "Rounds; the report has their medians")
      .Range(1u, 1000u)
      .ShowDefault();
  verb.AddOption("--duplicate", options.duplicate_percent,
                 "Percent of the data that kerfd has in its index")
      .Range(0u, 100u)
      .ShowDefault();
  verb.AddOption("--idle-streams", options.idle_streams, "Open, silent streams; 0: none")
      .Range(0u, 1000u)
      .ShowDefault();
  verb.AddOption("--busy-streams", options.busy_streams, "Streams that all send; 0: none")
      .Range(0u, 1000u)
      .ShowDefault();
  verb.AddOption("--busy-size", flags->busy_size, "What each busy stream sends")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--seed", flags->seed, "Of the data; 0: another one each time").ShowDefault();
  verb.OnRun([&context, flags] { return Run(context, *flags); });
  AddRawPeer(context, bench_verb);
}

}  // namespace kerf::agent
