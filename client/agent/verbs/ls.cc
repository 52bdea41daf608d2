#include <array>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/verbs/open_store.h"
#include "client/agent/verbs/snapshot_name.h"
#include "client/agent/verbs/verbs.h"
#include "client/fs/path.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/store.h"
#include "client/store/snapshots/tree_salvage.h"

namespace kerf::agent {
namespace {

constexpr char kExamples[] =
    "  kerf ls latest --store /backup\n"
    "  kerf ls -l latest:/etc/ssh --store /backup\n"
    "  kerf ls 3f2a91 --store /backup --json | jq -r .path";

struct LsFlags {
  std::string snapshot;
  std::string store;
  bool detailed = false;
};

std::string_view KindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kFile:
      return "file";
    case NodeKind::kDirectory:
      return "directory";
    case NodeKind::kSymlink:
      return "symlink";
    case NodeKind::kFifo:
      return "fifo";
    case NodeKind::kSocket:
      return "socket";
    case NodeKind::kCharDevice:
      return "char_device";
    case NodeKind::kBlockDevice:
      return "block_device";
  }
  return "unknown";
}

// "-rw-r--r--" as ls(1) shows it.
std::string ModeText(const Node& node) {
  static constexpr std::array<char, 8> kKinds = {'?', '-', 'd', 'l', 'p', 's', 'c', 'b'};
  static constexpr std::string_view kBits = "rwxrwxrwx";
  std::string text(1, kKinds[static_cast<std::size_t>(node.kind)]);
  for (std::size_t bit = 0; bit < kBits.size(); ++bit) {
    text += (node.mode >> (8 - bit)) & 1 ? kBits[bit] : '-';
  }
  if ((node.mode & 04000) != 0) text[3] = (node.mode & 0100) != 0 ? 's' : 'S';
  if ((node.mode & 02000) != 0) text[6] = (node.mode & 0010) != 0 ? 's' : 'S';
  if ((node.mode & 01000) != 0) text[9] = (node.mode & 0001) != 0 ? 't' : 'T';
  return text;
}

std::string TimeText(const Timestamp& time) {
  const std::time_t seconds = time.seconds;
  std::tm local{};
  char text[32] = "?";
  if (localtime_r(&seconds, &local) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  }
  return text;
}

std::string OwnerText(const std::string& name, std::uint32_t number) {
  return name.empty() ? Cat(number) : Printable(name);
}

std::uint64_t ChunkCountOf(const TreeEntry& entry) {
  return entry.long_recipe.has_value() ? entry.long_recipe->chunk_count : entry.recipe.size();
}

void Print(Reporter& reporter, const SalvagedEntry& salvaged, bool detailed) {
  const TreeEntry& entry = salvaged.entry;
  const Node& node = entry.node;
  if (reporter.json()) {
    nlohmann::json object = {{"kind", KindName(node.kind)},
                             {"mode", absl::StrFormat("%04o", node.mode)},
                             {"uid", node.uid},
                             {"gid", node.gid},
                             {"mtime_s", node.modified.seconds},
                             {"mtime_ns", node.modified.nanoseconds}};
    PutBytes(object, "path", AbsoluteName(node.path));
    if (node.kind == NodeKind::kFile) object["size_bytes"] = node.size_bytes;
    if (node.kind == NodeKind::kFile) object["chunks"] = ChunkCountOf(entry);
    if (!node.link_target.empty()) PutBytes(object, "target", node.link_target);
    if (!node.hard_link_to.empty()) {
      PutBytes(object, "hard_link_to", AbsoluteName(node.hard_link_to));
    }
    if (salvaged.is_made_up) object["made_up"] = true;
    if (salvaged.is_doubtful) object["doubtful"] = true;
    reporter.Json("entry", std::move(object));
    return;
  }
  std::string line = Printable(AbsoluteName(node.path));
  if (detailed) {
    line = Cat(absl::StrFormat("%s %-8s %-8s %12d ", ModeText(node), OwnerText(node.user, node.uid),
                               OwnerText(node.group, node.gid), node.size_bytes),
               TimeText(node.modified), " ", line);
    if (node.kind == NodeKind::kSymlink) line += Cat(" -> ", Printable(node.link_target));
    if (!node.hard_link_to.empty()) {
      line += Cat(" = ", Printable(AbsoluteName(node.hard_link_to)));
    }
  }
  reporter.Result(line);
}

// What is left of a tree that is damaged is listed, as a restore brings it back.
absl::StatusOr<ExitCode> List(Context& context, const LsFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(context, flags.store));
  const SnapshotName name = ParseSnapshotName(flags.snapshot);
  KERF_ASSIGN_OR_RETURN(const store::v1::Snapshot snapshot, store->FindSnapshot(name.snapshot));
  const std::size_t digest_size_bytes = DigestSizeBytes(store->digest_algorithm());
  ChunkIndex index(store->packs_directory(), SeenPacks::kAsFarAsListed);
  index.EndWhen([&context] { return context.cancelled.load(); });
  KERF_RETURN_IF_ERROR(index.Refresh());
  for (const UnlistedFolder& folder : index.unlisted()) {
    context.reporter.Warning(folder.path, folder.status);
  }
  ChunkReader reader(index, ChunkReader::Options());
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> recipe,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes));
  std::uint64_t gap_count = 0;
  const auto report = [&](const TreeGap& gap) {
    if (!MayTouch(gap, name.path)) return;
    ++gap_count;
    context.reporter.Warning(AbsoluteName(gap.behind), DescribeGap(gap));
  };
  // Of recipes only the lengths are shown.
  SalvagingTreeReader tree(reader, std::make_shared<const std::vector<ChunkRef>>(std::move(recipe)),
                           digest_size_bytes, /*max_kept_chunks=*/0, report);
  SalvagedEntry next;
  bool found = name.path.empty();
  while (!context.cancelled) {
    KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
    if (!more) break;
    if (!IsAtOrBelow(next.entry.node.path, name.path)) continue;
    found = true;
    Print(context.reporter, next, flags.detailed);
  }
  if (!found && gap_count > 0) {
    return absl::DataLossError(Cat("snapshot ", snapshot.id(), " is damaged, and what is left of ",
                                   "it holds no ", AbsoluteName(name.path)));
  }
  if (!found) {
    return absl::NotFoundError(
        Cat("snapshot ", snapshot.id(), " holds no ", AbsoluteName(name.path),
            ": paths begin at the root, as `kerf ls ", snapshot.id(), "` shows them"));
  }
  return gap_count > 0 ? FailDamaged(context, *store, snapshot) : ExitCode::kOk;
}

}  // namespace

void AddLsVerb(Context& context) {
  const Verb verb = AddVerb(context, "ls", "List what a snapshot holds", kExamples);
  auto flags = std::make_shared<LsFlags>();
  verb.AddOption("snapshot", flags->snapshot,
                 "Id, beginning of an id, or latest (by the clock of the agents)")
      .Required()
      .Check(RefuseEmpty)
      .Type("SNAPSHOT[:PATH]");
  AddStoreOption(verb, flags->store);
  verb.AddFlag("-l,--long", flags->detailed, "Show mode, owner, size and time");
  verb.OnRun([&context, flags] {
    const absl::StatusOr<ExitCode> code = List(context, *flags);
    return code.ok() ? *code : FailWith(context, code.status());
  });
}

}  // namespace kerf::agent
