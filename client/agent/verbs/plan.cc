#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/plan/capacity.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/cut_flags.h"
#include "client/cli/duration.h"
#include "client/store/parity/parity_layout.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf plan 10T --dedup 2.5\n"
    "  kerf plan 1TiB 1PiB 1EiB --index redis --master-memory 64G\n"
    "  kerf plan 40T --profile fastcdc2020-64k --agents 16 --agent-memory 64G\n"
    "  kerf plan 10T --average 7.2K --daily 2 --rate 400M --window 6h --json\n\n"
    "Each SIZE is of the files that a first backup reads. --dedup, --compression and --average "
    "are\n"
    "what `kerf stats` says of a store like it (deduplication, compression, unique bytes a "
    "chunk),\n"
    "or `kerf analyze` of the files. Without --average the profile cuts random bytes here, and "
    "their\n"
    "mean chunk counts: small files make smaller ones. Figures are those of docs/performance.md "
    "and\n"
    "of the decisions (docs/adr) that the last column names; other machines have others. Nothing "
    "is\n"
    "asked or stored, and walls do not change the exit code.";

constexpr std::uint64_t kMinAverageBytes = 64;
constexpr double kMaxRatio = 1e6;

struct PlanFlags {
  std::vector<std::string> sizes;
  std::string profile = std::string(kDefaultProfileName);
  std::string average;
  std::string index = "embedded";
  double dedup = 1;
  double compression = 1;
  unsigned replicas = 1;
  std::string master_memory = "16G";
  std::string agent_memory = "16G";
  unsigned agents = 1;
  unsigned streams = 8;
  double daily = 1;
  unsigned parity = 0;
  std::string rate;
  std::string store_rate = "200M";
  std::string window = "8h";
};

absl::StatusOr<double> SizeOf(std::string_view flag, const std::string& text) {
  KERF_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseSizeFlag(flag, text, 1, UINT64_MAX));
  return static_cast<double>(bytes);
}

// All but the bytes of files.
absl::StatusOr<plan::Input> ParseFlags(const PlanFlags& flags) {
  plan::Input input;
  KERF_ASSIGN_OR_RETURN(input.profile, ParseProfile(flags.profile));
  if (flags.average.empty()) {
    input.chunk_bytes = plan::ExpectedChunkBytes(input.profile);
  } else {
    KERF_ASSIGN_OR_RETURN(
        const std::uint64_t average,
        ParseSizeFlag("--average", flags.average, kMinAverageBytes, input.profile.max_bytes));
    input.chunk_bytes = static_cast<double>(average);
  }
  input.index = flags.index == "redis" ? plan::IndexKind::kRedis : plan::IndexKind::kEmbedded;
  input.deduplication = flags.dedup;
  input.compression = flags.compression;
  input.replica_count = flags.replicas;
  input.agent_count = flags.agents;
  input.stream_count = flags.streams;
  input.daily_share = flags.daily / 100;
  input.parity_percent = flags.parity;
  KERF_ASSIGN_OR_RETURN(input.master_bytes, SizeOf("--master-memory", flags.master_memory));
  KERF_ASSIGN_OR_RETURN(input.agent_bytes, SizeOf("--agent-memory", flags.agent_memory));
  if (!flags.rate.empty()) {
    KERF_ASSIGN_OR_RETURN(input.rate, SizeOf("--rate", flags.rate));
  }
  KERF_ASSIGN_OR_RETURN(input.store_rate, SizeOf("--store-rate", flags.store_rate));
  const auto window = ParseDuration(flags.window);
  if (!window.ok()) return Annotate(window.status(), "--window");
  input.window_s = std::chrono::duration<double>(*window).count();
  return input;
}

void ShowJson(Context& context, const std::string& size, const PlanFlags& flags,
              const plan::Input& input, const plan::Plan& plan) {
  nlohmann::json object = {{"size", size},
                           {"profile", FormatProfile(input.profile)},
                           {"chunk_bytes", input.chunk_bytes},
                           {"index", flags.index},
                           {"walls", nlohmann::json::array()}};
  for (const plan::Figure& figure : plan.figures) object[figure.key] = figure.value;
  for (const plan::Wall& wall : plan.walls) {
    object["walls"].push_back(
        {{"wall", wall.key}, {"stops", wall.stops}, {"message", wall.what}, {"mend", wall.remedy}});
  }
  context.reporter.Json("plan", std::move(object));
}

// A column for each size.
void ShowTable(Reporter& reporter, const PlanFlags& flags, const std::vector<plan::Plan>& plans) {
  std::size_t label_width = 0;
  for (const plan::Figure& figure : plans[0].figures) {
    label_width = std::max(label_width, figure.label.size());
  }
  const auto show = [&](const std::string& label, const std::vector<std::string>& cells,
                        const std::string& source) {
    std::string line = absl::StrFormat("%-*s", static_cast<int>(label_width), label);
    for (const std::string& cell : cells) line += absl::StrFormat("  %14s", cell);
    if (!source.empty()) line += Cat("  ", source);
    reporter.Result(line);
  };
  show("", flags.sizes, "from");
  for (std::size_t row = 0; row < plans[0].figures.size(); ++row) {
    const plan::Figure& figure = plans[0].figures[row];
    std::vector<std::string> cells;
    cells.reserve(plans.size());
    for (const plan::Plan& plan : plans) {
      cells.push_back(plan::FormatFigure(figure.unit, plan.figures[row].value));
    }
    show(figure.label, cells, figure.source);
  }
  for (std::size_t column = 0; column < plans.size(); ++column) {
    for (const plan::Wall& wall : plans[column].walls) {
      reporter.Result(Cat("\n", flags.sizes[column], ": ", wall.stops ? "stops" : "slow", ": ",
                          wall.what, ".\n  ", wall.remedy));
    }
  }
}

ExitCode Run(Context& context, const PlanFlags& flags) {
  absl::StatusOr<plan::Input> input = ParseFlags(flags);
  if (!input.ok()) return FailUsage(context, input.status());
  std::vector<plan::Plan> plans;
  std::size_t wall_count = 0;
  for (const std::string& size : flags.sizes) {
    const absl::StatusOr<double> bytes = SizeOf("SIZE", size);
    if (!bytes.ok()) return FailUsage(context, bytes.status());
    input->file_bytes = *bytes;
    plans.push_back(plan::Reckon(*input));
    wall_count += plans.back().walls.size();
  }
  for (std::size_t index = 0; index < plans.size(); ++index) {
    ShowJson(context, flags.sizes[index], flags, *input, plans[index]);
  }
  context.reporter.Json("summary", {{"plans", plans.size()}, {"walls", wall_count}});
  if (!context.reporter.json()) ShowTable(context.reporter, flags, plans);
  return ExitCode::kOk;
}

void AddServerOptions(const Verb& verb, PlanFlags& flags) {
  verb.AddOption("--index", flags.index, "Where kerfd keeps its index")
      .Choices({"embedded", "redis"})
      .ShowDefault();
  verb.AddOption("--replicas", flags.replicas, "Replicas of each master of Redis")
      .Range(0u, 16u)
      .ShowDefault();
  verb.AddOption("--master-memory", flags.master_memory, "maxmemory of each Redis")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--streams", flags.streams, "Of all agents at once, at one kerfd")
      .Range(1u, 100'000u)
      .ShowDefault();
}

void AddAgentOptions(const Verb& verb, PlanFlags& flags) {
  verb.AddOption("--agents", flags.agents, "Machines that back up, each its share of SIZE")
      .Range(1u, 1'000'000u)
      .ShowDefault();
  verb.AddOption("--agent-memory", flags.agent_memory, "Memory of each machine that uses the store")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--parity", flags.parity, "Percent of parity that the store keeps; 0: none")
      .Range(0u, kMaxParityPercent)
      .ShowDefault();
  verb.AddOption("--daily", flags.daily, "Percent of SIZE that a day makes new")
      .Range(0.0, 100.0)
      .ShowDefault();
  verb.AddOption("--rate", flags.rate,
                 "Bytes of files a second, of all agents together; else what was measured with two "
                 "cores: 675 MB, with Redis 281 MB")
      .Check(RefuseEmpty)
      .Type("SIZE");
  verb.AddOption("--store-rate", flags.store_rate, "Bytes a second at which packs are read")
      .Type("SIZE")
      .ShowDefault();
  verb.AddOption("--window", flags.window, "In which a day's backups and a collection should end")
      .Type("TIME")
      .ShowDefault();
}

}  // namespace

void AddPlanVerb(Context& context) {
  const Verb verb = AddVerb(
      context, "plan", "Reckon what so much data needs: chunks, index, memory, disk, time, walls",
      kExamples);
  auto flags = std::make_shared<PlanFlags>();
  verb.AddOption("sizes", flags->sizes, "Bytes of files; several make a column each")
      .Required()
      .Check(RefuseEmpty)
      .Type("SIZE");
  verb.AddOption("--dedup", flags->dedup,
                 "How many times larger the files are than what differs in them")
      .Range(1.0, kMaxRatio)
      .ShowDefault();
  verb.AddOption("--compression", flags->compression, "The same of what packs compress")
      .Range(1.0, kMaxRatio)
      .ShowDefault();
  verb.AddOption("--profile", flags->profile, "A named profile, or algorithm:key=value,...")
      .Check(RefuseEmpty)
      .ShowDefault();
  verb.AddOption("--average", flags->average, "Mean chunk of your data; else of random bytes")
      .Check(RefuseEmpty)
      .Type("SIZE");
  AddServerOptions(verb, *flags);
  AddAgentOptions(verb, *flags);
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
