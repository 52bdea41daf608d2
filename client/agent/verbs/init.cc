// `kerf init` and `kerf store adopt`: which store a folder is.
#include <memory>
#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/cli/cut_flags.h"
#include "client/store/check/store_repair.h"
#include "client/store/parity/parity_layout.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

constexpr char kInitExamples[] =
    "  kerf init --store /backup\n"
    "  kerf init --store /backup --parity 5\n"
    "  kerf init --store /backup --profile fastcdc2020-64k --digest sha256";
constexpr char kStoreExamples[] = "  kerf store adopt --new-id --store /copied/backup";
constexpr char kAdoptExamples[] =
    "  kerf store adopt --new-id --store /copied/backup\n"
    "A copy of a store and its original have one id: what one of them stores, the server believes\n"
    "of the other one, too. Run no backups into the store meanwhile. Its index begins anew:\n"
    "`kerf index rebuild` saves the next backup the work.";

struct StoreFlags {
  std::string store;
  CutFlags cut;
  unsigned parity = 0;
  bool new_id = false;
};

absl::Status Make(Context& context, const StoreFlags& flags, const UploadRule& rule) {
  const absl::StatusOr<std::unique_ptr<Store>> there = Store::Open(flags.store);
  if (there.ok()) {
    return absl::AlreadyExistsError(
        Cat(flags.store, " holds a store already, ", (*there)->config().id()));
  }
  if (!absl::IsNotFound(there.status())) return there.status();
  KERF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Store> store,
      Store::OpenOrCreate(flags.store, FormatUploadProfile(rule.profile), rule.digest));
  if (flags.parity > 0) {
    KERF_RETURN_IF_ERROR(WriteParityPercent(store->directory(), flags.parity));
  }
  WarnOfFlaws(context, *store);
  RememberStore(*store);
  context.reporter.Json("summary", {{"repository", store->config().id()},
                                    {"profile", store->config().profile()},
                                    {"parity_percent", flags.parity}});
  context.reporter.Line(Cat("made store ", store->config().id(), " in ", flags.store));
  return absl::OkStatus();
}

ExitCode Adopt(Context& context, const StoreFlags& flags) {
  if (!flags.new_id) {
    return FailUsage(context, absl::InvalidArgumentError("give --new-id; nothing else is known"));
  }
  const absl::StatusOr<std::string> id = GiveNewId(flags.store);
  if (!id.ok()) return FailWith(context, id.status());
  if (const auto store = Store::Open(flags.store); store.ok()) RememberStore(**store);
  context.reporter.Json("summary", {{"repository", *id}});
  context.reporter.Line(Cat("the store in ", flags.store, " is ", *id, " from now on"));
  return ExitCode::kOk;
}

}  // namespace

void AddInitVerb(Context& context) {
  const Verb verb = AddVerb(context, "init", "Make a new store", kInitExamples);
  auto flags = std::make_shared<StoreFlags>();
  AddStoreOption(verb, flags->store);
  AddCutOptions(verb, flags->cut, "How the store cuts: see `kerf chunk --help`",
                "What the store names chunks by: blake3, sha256 or xxh3-128");
  verb.AddOption("--parity", flags->parity,
                 "Also keep parity of packs, so many bytes for each 100, which mends damaged ones: "
                 "see `kerf parity --help`")
      .Range(kMinParityPercent, kMaxParityPercent)
      .Type("PERCENT");
  verb.OnRun([&context, flags] {
    const absl::StatusOr<UploadRule> rule = ParseUploadFlags(flags->cut);
    if (!rule.ok()) return FailUsage(context, rule.status());
    const absl::Status status = Make(context, *flags, *rule);
    return status.ok() ? ExitCode::kOk : FailWith(context, status);
  });
}

void AddStoreVerb(Context& context) {
  const Verb group = AddVerb(context, "store", "Change what a store is", kStoreExamples);
  group.RequireVerb();
  const Verb verb = group.AddVerb("adopt", "Make a copied store one of its own", kAdoptExamples);
  auto flags = std::make_shared<StoreFlags>();
  AddStoreOption(verb, flags->store);
  verb.AddFlag("--new-id", flags->new_id, "Give it a new id");
  verb.OnRun([&context, flags] { return Adopt(context, *flags); });
}

}  // namespace kerf::agent
