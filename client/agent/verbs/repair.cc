#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/progress_display.h"
#include "client/store/check/store_repair.h"
#include "client/store/snapshots/store.h"
#include "client/store/snapshots/store_memory.h"

namespace kerf::agent {
namespace {

using State = RepairStep::State;

constexpr char kExamples[] =
    "  kerf repair --store /backup\n"
    "  kerf repair --store /backup --apply\n"
    "  kerf repair --store /backup --accept-loss 3f2a91c05be7d844 --apply\n"
    "Without --apply it only says what it would do. Nothing is deleted: what is of no use is "
    "moved\n"
    "to quarantine/ in the store. `kerf verify` finds out what there is to mend.";

struct RepairFlags {
  std::string store;
  std::vector<std::string> accepted_losses;
  std::string id;
  bool new_id = false;
  bool accept_set_back = false;
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

ExitCode Run(Context& context, const RepairFlags& flags) {
  const StoreMemory memory(StoreMemory::UsualDirectory());
  RepairOptions options;
  options.dry_run = !flags.apply;
  options.accepted_losses = flags.accepted_losses;
  options.store_id = flags.id;
  options.new_id = flags.new_id;
  options.remembered_ids = memory.IdsOf(flags.store);
  for (const std::string& id : options.remembered_ids) {
    options.remembered_epoch = std::max(options.remembered_epoch, memory.EpochOf(id));
  }
  absl::StatusOr<RepairReport> report = RepairStore(flags.store, options);
  if (!report.ok()) return FailWith(context, report.status());
  MendSetBack(flags, memory, *report);
  Reporter& reporter = context.reporter;
  for (const RepairStep& step : report->steps) Print(reporter, step);
  const std::size_t would = report->Count(State::kWould);
  const std::size_t remaining =
      would + report->Count(State::kFailed) + report->Count(State::kNeedsWord);
  reporter.Json("summary", {{"dry_run", !flags.apply},
                            {"steps", report->steps.size()},
                            {"done", report->Count(State::kDone)},
                            {"would", would},
                            {"failed", report->Count(State::kFailed)},
                            {"needs_word", report->Count(State::kNeedsWord)}});
  if (report->steps.empty()) reporter.Line("nothing to mend");
  if (would > 0) reporter.Line("nothing was changed: --apply does it");
  return remaining == 0 ? ExitCode::kOk : ExitCode::kIntegrity;
}

}  // namespace

void AddRepairVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "repair", "Mend a store's small files, or say what it would do", kExamples);
  auto flags = std::make_shared<RepairFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddOption("--accept-loss", flags->accepted_losses,
                 "A snapshot that is damaged or gone and need not come back (repeatable), or "
                 "manifest where that is gone")
      .Check(RefuseEmpty)
      .Type("ID");
  verb.AddFlag("--accept-set-back", flags->accept_set_back,
               "The store was set back to an older copy of itself, and that is right");
  verb.AddOption("--id", flags->id, "The store's id, should its configuration be lost")
      .Check(RefuseEmpty)
      .Type("ID");
  verb.AddFlag("--new-id", flags->new_id, "Take a new id should it not be known");
  verb.AddFlag("--apply", flags->apply, "Do it");
  verb.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
