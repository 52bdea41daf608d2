#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/check/store_repair.h"
#include "client/store/repair/pack_repair.h"
#include "client/store/repair/tree_repair.h"
#include "client/store/snapshots/store.h"
#include "client/store/snapshots/store_memory.h"

namespace kerf::agent {
namespace {

using State = RepairStep::State;

constexpr char kExamples[] =
    "  kerf repair --store /backup\n"
    "  kerf repair --store /backup --apply\n"
    "  kerf repair --store /backup --packs --apply\n"
    "  kerf repair --store /backup --accept-loss 3f2a91c05be7d844 --apply\n"
    "  kerf repair --store /backup --trees --accept-loss 3f2a91c05be7d844 --apply\n"
    "Without --apply it only says what it would do. Nothing is deleted: what is of no use is "
    "moved\n"
    "to quarantine/ in the store. `kerf verify` finds out what there is to mend.";

struct RepairFlags {
  std::string store;
  std::vector<std::string> accepted_losses;
  std::string id;
  bool new_id = false;
  bool accept_missing = false;
  bool accept_set_back = false;
  bool packs = false;
  bool trees = false;
  bool trust_salvaged = false;
  bool apply = false;
};

std::string_view StateName(State state) {
  switch (state) {
    case State::kWould:
      return "would";
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kNeedsWord:
      return "needs_word";
  }
  return "unknown";
}

void Print(Reporter& reporter, const RepairStep& step) {
  reporter.Json("repair", {{"what", step.what},
                           {"path", step.path},
                           {"state", StateName(step.state)},
                           {"message", step.text}});
  const std::string_view prefix = step.state == State::kWould       ? "would mend: "
                                  : step.state == State::kDone      ? "mended: "
                                  : step.state == State::kNeedsWord ? "for you to decide: "
                                                                    : "could not be mended: ";
  reporter.Result(Cat(prefix, Printable(step.text)));
}

// That the store lies behind what this user has seen of it.
void MendSetBack(const RepairFlags& flags, const StoreMemory& memory, RepairReport& report) {
  const absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(flags.store);
  // What is wrong with it was said.
  if (!store.ok() || !(*store)->ReadEpoch().ok()) return;
  const absl::Status status = memory.Meet(**store);
  if (status.ok()) return;
  RepairStep& step = report.steps.emplace_back();
  step.what = "set_back";
  step.path = flags.store;
  step.text = MessageOf(status);
  step.state = State::kNeedsWord;
  if (!flags.accept_set_back) return;
  step.text = Cat(flags.store, " was set back to an older copy of itself, which is accepted");
  step.state = State::kWould;
  if (!flags.apply) return;
  const absl::Status accepted = memory.Accept(**store);
  step.state = accepted.ok() ? State::kDone : State::kFailed;
  if (!accepted.ok()) step.text += Cat(": ", MessageOf(accepted));
}

RepairStep StepOf(const RepairedPack& pack, bool dry_run) {
  RepairStep step;
  step.what = "pack";
  step.path = pack.path;
  if (pack.is_mended) {
    step.text = Cat(MessageOf(pack.damage), dry_run ? "; its parity gives it its bytes again"
                                                    : "; it has its bytes again, with its parity");
    if (!pack.quarantine_path.empty()) {
      step.text += Cat("; the damaged file is ", pack.quarantine_path, " now");
    }
    step.state = dry_run ? State::kWould : State::kDone;
    return step;
  }
  const std::string_view stays = "; it stays, for it may be read another time, or by a newer kerf";
  const std::string with_parity =
      pack.parity_failure.ok() ? "" : Cat("; with its parity: ", MessageOf(pack.parity_failure));
  step.text = Cat(MessageOf(pack.damage), with_parity, "; ");
  if (dry_run) {
    step.text +=
        Cat(pack.footer_is_lost
                ? std::string("its list of chunks is lost: what snapshots need is looked for in it")
                : Cat(pack.lost_chunk_count,
                      " of its chunks are sound nowhere, the others go into a new pack"),
            pack.may_come_back ? stays : "; it goes to quarantine/");
    step.state = State::kWould;
    return step;
  }
  step.text += Cat(FormatCounted(pack.saved_chunk_count, "chunk"), " of it saved, ",
                   pack.lost_chunk_count, " lost");
  if (pack.quarantine_path.empty()) {
    step.text += stays;
    step.state = State::kFailed;
  } else {
    step.text += Cat("; it is ", pack.quarantine_path, " now");
    step.state = State::kDone;
  }
  return step;
}

// New packs that have none.
void AddParityFailures(const std::vector<absl::Status>& failures, RepairReport& report) {
  for (const absl::Status& failure : failures) {
    report.steps.push_back({"parity", "", std::string(MessageOf(failure)), State::kFailed});
  }
}

void AddParitySteps(const PackRepairReport& packs, bool dry_run, RepairReport& report) {
  for (const RepairedParity& parity : packs.parity) {
    RepairStep& step = report.steps.emplace_back();
    step.what = "parity";
    step.path = parity.path;
    const std::string_view done =
        parity.is_removed ? "it goes to quarantine/, for the store keeps none" : "it is made anew";
    step.text =
        Cat(MessageOf(parity.damage), "; ", parity.failure.ok() ? done : MessageOf(parity.failure));
    step.state = !parity.failure.ok() ? State::kFailed : dry_run ? State::kWould : State::kDone;
  }
  AddParityFailures(packs.parity_failures, report);
}

// Of a store that can be opened: a pack says nothing without its configuration.
absl::Status MendPacks(Context& context, const RepairFlags& flags, PackRepairReport& packs,
                       RepairReport& report) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(flags.store));
  struct Shared {
    std::atomic<std::uint64_t> done = 0;
    std::atomic<std::uint64_t> total = 0;
  };
  const auto shared = std::make_shared<Shared>();
  PackRepairOptions options;
  options.dry_run = !flags.apply;
  options.trees_follow = flags.trees;
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  options.on_progress = [shared](std::uint64_t done, std::uint64_t total) {
    shared->done = done;
    shared->total = total;
  };
  absl::Status status;
  {
    const ProgressDisplay display(context.reporter, "repair", [shared] {
      ProgressState state;
      state.noun = "packs";
      state.counts_only = true;
      state.done_files = shared->done;
      state.total_files = shared->total;
      return state;
    });
    status = RepairPacks(*store, options, packs);
  }
  AddParitySteps(packs, options.dry_run, report);
  bool has_moved = false;
  for (const RepairedPack& pack : packs.packs) {
    has_moved |= !pack.is_mended && !pack.quarantine_path.empty();
    report.steps.push_back(StepOf(pack, options.dry_run));
  }
  if (has_moved) {
    context.reporter.Notice(
        "the server's index still names what was lost, and is not believed: run `kerf gc`");
  }
  return status;
}

void AddLostSteps(const PackRepairReport& packs, RepairReport& report) {
  for (const VerifyFinding& lost : packs.lost) {
    RepairStep& step = report.steps.emplace_back();
    step.what = "lost";
    step.path = lost.path.empty() ? std::string() : Cat("/", lost.path);
    step.text = Cat(lost.snapshot_id.empty() ? "store" : Cat("snapshot ", lost.snapshot_id), ", ",
                    step.path, ": ", MessageOf(lost.status),
                    ": run `kerf backup --force` over the same paths while they are there");
    step.state = State::kNeedsWord;
  }
}

RepairStep StepOf(const RepairedTree& tree, bool dry_run) {
  RepairStep step;
  step.what = "tree";
  step.path = tree.path;
  const std::string damage = Cat("snapshot ", tree.id, ": ", MessageOf(tree.damage));
  const store::v1::Salvage& salvage = tree.salvage;
  if (salvage.replaces().empty()) {
    step.text = damage;
    step.state = State::kNeedsWord;
    return step;
  }
  const std::string loss =
      tree.is_whole
          ? std::string("; all entries are there, the next backup reads their files once more")
          : Cat("; in all ", FormatCounted(salvage.lost_entry_count(), "entry"), " lost at ",
                FormatCounted(salvage.gap_count(), "place"), ", ", salvage.left_out_count(),
                " left out, ", FormatCounted(salvage.made_up_count(), "directory"), " made up");
  if (!tree.new_id.empty() && tree.quarantine_path.empty()) {
    step.text = Cat(damage, loss, "; snapshot ", tree.new_id,
                    " has what is left of it, and it is still there itself");
    step.state = State::kFailed;
  } else if (!tree.new_id.empty()) {
    step.text = Cat(damage, loss, "; snapshot ", tree.new_id, " has what is left of it, it is ",
                    tree.quarantine_path, " now");
    step.state = State::kDone;
  } else if (tree.is_accepted && dry_run) {
    step.text = Cat(damage, loss, "; a new snapshot of what is left takes its place");
  } else {
    step.text = Cat(damage, loss, ": bring back what is damaged from a copy, or accept the loss ",
                    "with --accept-loss ", tree.id, ": a new snapshot of what is left takes its ",
                    "place then");
    step.state = State::kNeedsWord;
  }
  return step;
}

// What snapshots have lost, entry by entry; no step of its own: it goes with the snapshot's.
void TellLosses(Reporter& reporter, const RepairedTree& tree) {
  for (const TreeLoss& loss : tree.losses) {
    nlohmann::json object = {{"snapshot", tree.id}, {"message", MessageOf(loss.status)}};
    PutBytes(object, "path", Cat("/", loss.path));
    reporter.Json("lost", std::move(object));
    reporter.Result(Cat("lost of snapshot ", tree.id, ": ", Printable(Cat("/", loss.path)), ": ",
                        Printable(MessageOf(loss.status))));
  }
  if (tree.losses.size() == kMaxNamedLosses) reporter.Result("lost: no more than these are named");
}

absl::Status MendTrees(Context& context, const RepairFlags& flags, RepairReport& report) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(flags.store));
  TreeRepairOptions options;
  options.dry_run = !flags.apply;
  options.accepted_losses = flags.accepted_losses;
  options.trust_doubtful = flags.trust_salvaged;
  options.is_cancelled = [&context] { return context.cancelled.load(); };
  TreeRepairReport trees;
  const absl::Status status = RepairTrees(*store, options, trees);
  for (const RepairedTree& tree : trees.trees) {
    report.steps.push_back(StepOf(tree, options.dry_run));
    TellLosses(context.reporter, tree);
  }
  AddParityFailures(trees.parity_failures, report);
  return status;
}

// What snapshots miss once packs and trees are mended.
absl::Status FindLostBehindTrees(Context& context, const RepairFlags& flags,
                                 PackRepairReport& packs) {
  if (!flags.apply && !packs.packs.empty()) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(flags.store));
  return FindLost(*store, [&context] { return context.cancelled.load(); }, packs);
}

absl::Status Mend(Context& context, const RepairFlags& flags, RepairReport& report) {
  const StoreMemory memory(StoreMemory::UsualDirectory());
  RepairOptions options;
  options.dry_run = !flags.apply;
  options.accepted_losses = flags.accepted_losses;
  options.trees_follow = flags.trees;
  options.accept_missing = flags.accept_missing;
  options.store_id = flags.id;
  options.new_id = flags.new_id;
  options.remembered_ids = memory.IdsOf(flags.store);
  for (const std::string& id : options.remembered_ids) {
    options.remembered_epoch = std::max(options.remembered_epoch, memory.EpochOf(id));
  }
  KERF_RETURN_IF_ERROR(RepairStore(flags.store, options, report));
  MendSetBack(flags, memory, report);
  PackRepairReport packs;
  absl::Status status;
  if (flags.packs) status = MendPacks(context, flags, packs, report);
  // Behind the packs, which may give back chunks of trees.
  if (status.ok() && flags.trees) {
    status = MendTrees(context, flags, report);
    if (status.ok() && flags.packs) status = FindLostBehindTrees(context, flags, packs);
  }
  AddLostSteps(packs, report);
  return status;
}

ExitCode Run(Context& context, const RepairFlags& flags) {
  if (flags.trust_salvaged && !flags.trees) {
    return FailUsage(context, absl::InvalidArgumentError("--trust-salvaged is for --trees"));
  }
  Reporter& reporter = context.reporter;
  RepairReport report;
  const absl::Status status = Mend(context, flags, report);
  // Also where a later part failed: these are done.
  for (const RepairStep& step : report.steps) Print(reporter, step);
  if (!status.ok()) return FailWith(context, status);
  const std::size_t would = report.Count(State::kWould);
  const std::size_t remaining =
      would + report.Count(State::kFailed) + report.Count(State::kNeedsWord);
  reporter.Json("summary", {{"dry_run", !flags.apply},
                            {"steps", report.steps.size()},
                            {"done", report.Count(State::kDone)},
                            {"would", would},
                            {"failed", report.Count(State::kFailed)},
                            {"needs_word", report.Count(State::kNeedsWord)}});
  if (report.steps.empty()) reporter.Line("nothing to mend");
  if (would > 0) reporter.Line("nothing was changed: --apply does it");
  return remaining == 0 ? ExitCode::kOk : ExitCode::kIntegrity;
}

}  // namespace

void AddRepairVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "repair", "Mend a store's small files, or say what it would do", kExamples);
  auto flags = std::make_shared<RepairFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddOption(
          "--accept-loss", flags->accepted_losses,
          "A snapshot that is damaged or gone and need not come back (repeatable), or "
          "manifest where that is gone; with --trees one whose list of files is damaged, and "
          "content: files of these snapshots go whose content is lost")
      .Check(RefuseEmpty)
      .Type("ID");
  verb.AddFlag("--accept-missing", flags->accept_missing,
               "So need all snapshots that are gone: kerf 0.1.0, which leaves no word of it, has "
               "forgotten them");
  verb.AddFlag("--accept-set-back", flags->accept_set_back,
               "The store was set back to an older copy of itself, and that is right");
  verb.AddOption("--id", flags->id, "The store's id, should its configuration be lost")
      .Check(RefuseEmpty)
      .Type("ID");
  verb.AddFlag("--new-id", flags->new_id, "Take a new id should it not be known");
  verb.AddFlag("--packs", flags->packs,
               "Also read every pack, and mend damaged ones: with their parity, or by saving "
               "what is sound in them; and make damaged parity anew");
  verb.AddFlag(
      "--trees", flags->trees,
      "Also read the metadata of all snapshots; of one whose list of files is damaged a new "
      "snapshot of what is left takes the place");
  verb.AddFlag(
      "--trust-salvaged", flags->trust_salvaged,
      "With --trees: keep set-id bits, capabilities and devices of entries that were found "
      "behind the damage, where a user could have planted them");
  verb.AddFlag("--apply", flags->apply, "Do it");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
