#include <cstdint>
#include <memory>
#include <optional>

#include "base/strings.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/cpp/server_index.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo quota anna --server unix:/run/kerfd.sock\n"
    "  kerf repo quota --store /backup --server unix:/run/kerfd.sock --json\n"
    "Quotas stand in the file of kerfd's --access: [[repository]], docs/spec/access.md.";

nlohmann::json JsonOf(const std::optional<std::uint64_t>& limit) {
  return limit.has_value() ? nlohmann::json(*limit) : nlohmann::json(nullptr);
}

// "at most 1,000 a second".
std::string TextOf(const std::optional<std::uint64_t>& limit, std::string_view unit = "") {
  return limit.has_value() ? Cat("at most ", FormatCount(*limit), unit) : "no limit";
}

std::string EntriesOf(const client::ServerIndexStats& stats) {
  const std::string count = FormatCount(stats.entry_count);
  const auto& limit = stats.quota.max_entries;
  if (!limit.has_value()) return Cat(count, ", no limit");
  if (stats.entry_count >= *limit) {
    return Cat(count, " of ", FormatCount(*limit), ": it takes no more");
  }
  const double share = static_cast<double>(stats.entry_count) / static_cast<double>(*limit);
  return Cat(count, " of ", FormatCount(*limit), " (", static_cast<int>(share * 100), "%)");
}

ExitCode Run(Context& context, const RepoTools& tools) {
  client::ServerIndex index(tools.channel, tools.repository.name, tools.repository.digest_algorithm,
                            tools.calls);
  const absl::StatusOr<client::ServerIndexStats> stats = index.ReadStats();
  if (!stats.ok()) return FailWithServer(context, stats.status(), tools.server);
  const client::ServerQuota& quota = stats->quota;
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  Reporter& reporter = context.reporter;
  reporter.Json("summary", {{"repository", tools.repository.name},
                            {"digest", digest},
                            {"index_entries", stats->entry_count},
                            {"max_entries", JsonOf(quota.max_entries)},
                            {"max_streams", JsonOf(quota.max_streams)},
                            {"max_bytes_per_second", JsonOf(quota.max_bytes_per_second)},
                            {"max_calls_per_second", JsonOf(quota.max_calls_per_second)}});
  reporter.Result(Cat("repository   ", tools.repository.name, " (", digest, ")"));
  reporter.Result(Cat("entries      ", EntriesOf(*stats)));
  reporter.Result(Cat("uploads      ", TextOf(quota.max_streams, " at once")));
  reporter.Result(Cat("uploaded     ", TextOf(quota.max_bytes_per_second, " bytes a second")));
  reporter.Result(Cat("index calls  ", TextOf(quota.max_calls_per_second, " a second")));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoQuota(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<RepoFlags>();
  const Verb verb = AddRepoSubverb(
      repo_verb, "quota", "Show what a repository may have, and has of it", kExamples, *flags);
  verb.OnRun([&context, flags] {
    return WithRepository(context, *flags,
                          [&](const RepoTools& tools) { return Run(context, tools); });
  });
}

}  // namespace kerf::agent
