// `kerf pin`, `kerf unpin` and `kerf undelete`: what keeps a snapshot, or brings it back.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/verbs.h"
#include "client/store/collect/undelete.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {
namespace {

constexpr char kPinExamples[] =
    "  kerf pin 3f2a91 --reason 'before the move' --store /backup\n"
    "A pinned snapshot is not forgotten, by name or by rule, until `kerf unpin`.";
constexpr char kUnpinExamples[] = "  kerf unpin 3f2a91 --store /backup";
constexpr char kUndeleteExamples[] =
    "  kerf snapshots --forgotten --store /backup\n"
    "  kerf undelete 3f2a91 --store /backup\n"
    "What `kerf forget` took can be brought back until the next `kerf gc`, or longer with\n"
    "`kerf gc --keep-forgotten 7d`.";

struct PinFlags {
  std::vector<std::string> snapshots;
  std::string store;
  std::string reason;
};

absl::Status Pin(Context& context, const PinFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                        OpenStoreForWriting(context, flags.store));
  for (const std::string& name : flags.snapshots) {
    KERF_ASSIGN_OR_RETURN(const store::v1::Snapshot snapshot, store->FindSnapshot(name));
    store::v1::SnapshotPin pin;
    pin.set_id(snapshot.id());
    pin.set_reason(flags.reason);
    if (const char* user = std::getenv("USER")) pin.set_user(user);
    pin.set_pinned_unix_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count());
    KERF_RETURN_IF_ERROR(store->PinSnapshot(pin));
    context.reporter.Line(Cat("pinned ", snapshot.id()));
  }
  context.reporter.Json("summary", {{"pinned", flags.snapshots.size()}});
  return absl::OkStatus();
}

absl::Status Unpin(Context& context, const PinFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                        OpenStoreForWriting(context, flags.store));
  for (const std::string& name : flags.snapshots) {
    // The pin of a snapshot that was lost goes by its id.
    std::string id = name;
    if (!store->pins().Has(id)) {
      KERF_ASSIGN_OR_RETURN(const store::v1::Snapshot snapshot, store->FindSnapshot(name));
      id = snapshot.id();
    }
    const absl::Status status = store->pins().Remove(id);
    if (absl::IsNotFound(status)) {
      return absl::NotFoundError(Cat("snapshot ", id, " is not pinned"));
    }
    KERF_RETURN_IF_ERROR(status);
    context.reporter.Line(Cat("unpinned ", id));
  }
  context.reporter.Json("summary", {{"unpinned", flags.snapshots.size()}});
  return absl::OkStatus();
}

absl::Status BringBack(Context& context, const PinFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store,
                        OpenStoreForWriting(context, flags.store));
  for (const std::string& name : flags.snapshots) {
    KERF_ASSIGN_OR_RETURN(const std::string id, FindForgotten(*store, name));
    KERF_RETURN_IF_ERROR(Undelete(*store, id, [&context] { return context.cancelled.load(); }));
    context.reporter.Json("undeleted", {{"snapshot", id}});
    context.reporter.Line(Cat("brought back ", id));
  }
  RememberStore(*store);
  context.reporter.Json("summary", {{"undeleted", flags.snapshots.size()}});
  return absl::OkStatus();
}

void AddSnapshotsVerb(Context& context, const std::string& name, const std::string& description,
                      const char* examples, bool has_reason,
                      absl::Status (*run)(Context&, const PinFlags&)) {
  const Verb verb = AddVerb(context, name, description, examples);
  auto flags = std::make_shared<PinFlags>();
  verb.AddOption("snapshots", flags->snapshots, "Ids, or beginnings of them")
      .Required()
      .Check([](const std::string& id) -> std::string {
        // As what `../x` would be in the name of a file.
        if (id.find('/') != std::string::npos) return "a snapshot has no '/' in its id";
        return RefuseEmpty(id);
      })
      .Type("SNAPSHOT");
  AddStoreOption(verb, flags->store);
  if (has_reason) {
    verb.AddOption("--reason", flags->reason, "Why, for whoever wants to forget it")
        .Check(RefuseEmpty)
        .Type("TEXT");
  }
  verb.OnRun([&context, flags, run] {
    const absl::Status status = run(context, *flags);
    return status.ok() ? ExitCode::kOk : FailWith(context, status);
  });
}

}  // namespace

void AddPinVerb(Context& context) {
  AddSnapshotsVerb(context, "pin", "Keep snapshots from being forgotten", kPinExamples, true, Pin);
}

void AddUnpinVerb(Context& context) {
  AddSnapshotsVerb(context, "unpin", "Let pinned snapshots be forgotten again", kUnpinExamples,
                   false, Unpin);
}

void AddUndeleteVerb(Context& context) {
  AddSnapshotsVerb(context, "undelete", "Bring back snapshots that were forgotten",
                   kUndeleteExamples, false, BringBack);
}

}  // namespace kerf::agent
