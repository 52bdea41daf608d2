#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "base/strings.h"
#include "client/agent/verbs/repo_flags.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf repo reset-epoch --store /backup --server unix:/run/kerfd.sock\n"
    "  kerf repo reset-epoch anna --epoch 41 --server unix:/run/kerfd.sock\n"
    "For a repository whose epoch somebody has taken too far: backups then say EPOCH_BEHIND, and\n"
    "collections that it is no epoch of this store. Whoever did it is to be kept away first.\n"
    "Afterwards all that the server has of the repository is looked up in the store before it is\n"
    "used, until `kerf index rebuild` or the next `kerf gc`.";

constexpr std::uint64_t kNoEpoch = std::numeric_limits<std::uint64_t>::max();

struct ResetFlags {
  RepoFlags repo;
  // With a name.
  std::uint64_t epoch = kNoEpoch;
};

// Of a store it is the one before its own: sessions of today believe nothing from before.
absl::StatusOr<std::uint64_t> EpochOf(const ResetFlags& flags, const RepoTools& tools) {
  if (tools.store == nullptr) return flags.epoch;
  const absl::StatusOr<std::uint64_t> store_epoch = tools.store->ReadEpoch();
  if (!store_epoch.ok()) return store_epoch.status();
  return *store_epoch - 1;
}

ExitCode Run(Context& context, const ResetFlags& flags, const RepoTools& tools) {
  const absl::StatusOr<std::uint64_t> epoch = EpochOf(flags, tools);
  if (!epoch.ok()) return FailWith(context, epoch.status());
  const auto go_on = [&context](std::uint64_t /*done_count*/) {
    return context.cancelled
               ? absl::CancelledError("it was interrupted: run kerf repo reset-epoch again")
               : absl::OkStatus();
  };
  const absl::StatusOr<std::uint64_t> lowered_count =
      tools.repositories.ResetEpoch(tools.repository, *epoch, go_on);
  if (!lowered_count.ok()) {
    return FailWithRepositories(context, lowered_count.status(), tools.server);
  }
  const std::string digest(DigestAlgorithmName(tools.repository.digest_algorithm));
  context.reporter.Json("summary", {{"repository", tools.repository.name},
                                    {"digest", digest},
                                    {"index_epoch", *epoch},
                                    {"lowered_entries", *lowered_count}});
  context.reporter.Line(Cat("the index of ", tools.repository.name, " is at epoch ", *epoch, "; ",
                            FormatCounted(*lowered_count, "entry"),
                            " of later ones; `kerf index rebuild` or the next `kerf gc` makes it "
                            "believed again"));
  return ExitCode::kOk;
}

}  // namespace

void AddRepoResetEpoch(Context& context, const Verb& repo_verb) {
  auto flags = std::make_shared<ResetFlags>();
  const Verb verb =
      AddRepoSubverb(repo_verb, "reset-epoch", "Set the epoch of a repository that has run away",
                     kExamples, flags->repo);
  verb.AddOption("--epoch", flags->epoch, "With NAME: one that lies behind its store's")
      .Type("NUMBER");
  verb.OnRun([&context, flags] {
    if (flags->repo.name.empty() != (flags->epoch == kNoEpoch)) {
      return FailUsage(context,
                       absl::InvalidArgumentError("--epoch NUMBER goes with NAME; with --store it "
                                                  "is the one before the store's"));
    }
    return WithRepository(context, flags->repo,
                          [&](const RepoTools& tools) { return Run(context, *flags, tools); });
  });
}

}  // namespace kerf::agent
