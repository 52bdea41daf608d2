#include <array>
#include <ctime>
#include <memory>

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

void Print(Reporter& reporter, const TreeEntry& entry, std::uint64_t chunk_count, bool detailed) {
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
    if (node.kind == NodeKind::kFile) object["chunks"] = chunk_count;
    if (!node.link_target.empty()) PutBytes(object, "target", node.link_target);
    if (!node.hard_link_to.empty()) {
      PutBytes(object, "hard_link_to", AbsoluteName(node.hard_link_to));
    }
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

absl::Status List(Context& context, const LsFlags& flags) {
  KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(context, flags.store));
  const SnapshotName name = ParseSnapshotName(flags.snapshot);
  KERF_ASSIGN_OR_RETURN(const store::v1::Snapshot snapshot, store->FindSnapshot(name.snapshot));
  const std::size_t digest_size_bytes = DigestSizeBytes(store->digest_algorithm());
  ChunkIndex index(store->packs_directory());
  KERF_RETURN_IF_ERROR(index.Refresh());
  ChunkReader reader(index, ChunkReader::Options());
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> recipe,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes));
  TreeReader tree(ReadRecipe(reader, std::move(recipe)), digest_size_bytes);
  TreeEntry entry;
  bool found = name.path.empty();
  while (!context.cancelled) {
    std::uint64_t chunk_count = 0;
    const auto count = [&chunk_count](const ChunkRef&) { ++chunk_count; };
    const absl::StatusOr<bool> more = tree.Next(entry, count);
    // That there is such a snapshot was seen before: something that it needs is gone.
    if (absl::IsNotFound(more.status())) return absl::DataLossError(more.status().message());
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (!IsAtOrBelow(entry.node.path, name.path)) continue;
    found = true;
    Print(context.reporter, entry, chunk_count, flags.detailed);
  }
  if (!found) {
    return absl::NotFoundError(
        Cat("snapshot ", snapshot.id(), " holds no ", AbsoluteName(name.path),
            ": paths begin at the root, as `kerf ls ", snapshot.id(), "` shows them"));
  }
  return absl::OkStatus();
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
    const absl::Status status = List(context, *flags);
    return status.ok() ? ExitCode::kOk : FailWith(context, status);
  });
}

}  // namespace kerf::agent
