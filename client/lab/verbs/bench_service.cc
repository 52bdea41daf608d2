#include <memory>
#include <random>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/cut_flags.h"
#include "client/cli/find_program.h"
#include "client/lab/bench/raw_peer.h"
#include "client/lab/bench/report.h"
#include "client/lab/bench/service_bench.h"
#include "client/lab/bench/service_options.h"
#include "client/lab/verbs/lab_runs.h"

namespace kerf::agent {
namespace {

using bench::ServiceOptions;

constexpr std::uint64_t kMaxPassBytes = 16 * kGiB;

absl::StatusOr<ServiceOptions> ReadOptions(Context& context, const ServiceFlags& flags) {
  ServiceOptions options = flags.options;
  if (!flags.server.address.empty()) {
    KERF_ASSIGN_OR_RETURN(client::ServerAddress server, ServerOf(context, flags.server));
    options.server = std::move(server.text);
    options.tls = std::move(server.tls);
  }
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

}  // namespace

ExitCode RunBenchService(Context& context, const ServiceFlags& flags) {
  const absl::StatusOr<ServiceOptions> options = ReadOptions(context, flags);
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
  if (!result.ok() && !options->server.empty()) {
    return FailWithServer(context, result.status(), {options->server, options->tls});
  }
  if (!result.ok()) return FailWith(context, result.status());
  reporter.Json("summary", bench::ReportJson(*options, *result));
  for (const std::string& line : bench::ReportLines(*options, *result)) reporter.Result(line);
  return ExitCode::kOk;
}

ExitCode RunRawPeer(Context& context, const RawPeerFlags& flags) {
  const absl::Status status = bench::ServeRaw(flags.listen, flags.ready_file);
  return status.ok() ? ExitCode::kOk : FailWith(context, status);
}

}  // namespace kerf::agent
