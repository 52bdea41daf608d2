#include "client/store/repair/surviving_entries.h"

#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

void Lose(std::string path, absl::Status status, RepairedTree& report) {
  if (report.losses.size() >= kMaxNamedLosses) return;
  report.losses.push_back({std::move(path), std::move(status)});
}

}  // namespace

SurvivingIdentities::SurvivingIdentities(ChunkReader& reader, std::vector<ChunkRef> recipe)
    : reader_(reader), recipe_(std::move(recipe)), identities_([this] { return NextPiece(); }) {}

absl::StatusOr<std::span<const std::uint8_t>> SurvivingIdentities::NextPiece() {
  if (next_chunk_ >= recipe_.size()) return std::span<const std::uint8_t>();
  const ChunkRef& chunk = recipe_[next_chunk_++];
  const std::uint64_t begin = given_bytes_;
  given_bytes_ += chunk.length_bytes;
  absl::StatusOr<ChunkBytes> bytes = reader_.Read(chunk);
  if (absl::IsResourceExhausted(bytes.status())) return bytes.status();
  if (bytes.ok()) {
    current_ = *std::move(bytes);
    return current_.bytes();
  }
  damage_.Update(bytes.status());
  lost_.emplace_back(begin, given_bytes_);
  zeros_.assign(chunk.length_bytes, 0);
  return std::span<const std::uint8_t>(zeros_);
}

absl::StatusOr<NodeIdentity> SurvivingIdentities::Next() {
  NodeIdentity identity;
  const std::uint64_t begin = read_bytes_;
  read_bytes_ += kIdentityBytes;
  const absl::StatusOr<bool> more = identities_.Next(identity);
  if (absl::IsResourceExhausted(more.status())) return more.status();
  if (!more.ok() || !*more) {
    damage_.Update(more.ok() ? absl::DataLossError("the identity stream ends before the tree does")
                             : more.status());
    return NodeIdentity();
  }
  std::erase_if(lost_, [begin](const auto& range) { return range.second <= begin; });
  const bool is_lost = !lost_.empty() && lost_.front().first < read_bytes_;
  return is_lost ? NodeIdentity() : identity;
}

absl::StatusOr<std::unique_ptr<SurvivingEntries>> SurvivingEntries::Make(
    const store::v1::Snapshot& snapshot, std::size_t digest_size_bytes, const ChunkIndex& index,
    ChunkReader& reader, const TreeRepairOptions& options, bool without_lost_content) {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes));
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> identity,
                        RecipeFromProto(snapshot.identity(), digest_size_bytes));
  return std::unique_ptr<SurvivingEntries>(new SurvivingEntries(
      snapshot, std::make_shared<const std::vector<ChunkRef>>(std::move(tree)), std::move(identity),
      digest_size_bytes, index, reader, options, without_lost_content));
}

SurvivingEntries::SurvivingEntries(const store::v1::Snapshot& snapshot, SharedRecipe tree,
                                   std::vector<ChunkRef> identity, std::size_t digest_size_bytes,
                                   const ChunkIndex& index, ChunkReader& reader,
                                   const TreeRepairOptions& options, bool without_lost_content)
    : snapshot_(snapshot),
      tree_(std::move(tree)),
      identity_(std::move(identity)),
      digest_size_bytes_(digest_size_bytes),
      index_(index),
      reader_(reader),
      options_(options),
      without_lost_content_(without_lost_content) {}

SalvagingTreeReader SurvivingEntries::OpenTree(std::function<void(const TreeGap&)> on_gap) {
  return {reader_, tree_, digest_size_bytes_, kMaxKeptChunks, std::move(on_gap)};
}

absl::Status SurvivingEntries::CheckCancelled() const {
  return options_.is_cancelled && options_.is_cancelled()
             ? absl::CancelledError("the repair was interrupted")
             : absl::OkStatus();
}

absl::Status SurvivingEntries::VisitRecipe(const TreeEntry& entry, const ChunkVisitor& visit) {
  for (const ChunkRef& chunk : entry.recipe) visit(chunk);
  if (!entry.long_recipe.has_value()) return absl::OkStatus();
  const RecipePlace& place = *entry.long_recipe;
  RecipeReader recipe(ReadRecipe(reader_, tree_, place.piece_index), place, digest_size_bytes_);
  while (recipe.left_count() > 0) {
    KERF_ASSIGN_OR_RETURN(const ChunkRef chunk, recipe.Next());
    visit(chunk);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SurvivingEntries::HasLostContent(const TreeEntry& entry) {
  bool is_lost = false;
  KERF_RETURN_IF_ERROR(VisitRecipe(
      entry, [&](const ChunkRef& chunk) { is_lost = is_lost || !index_.Contains(chunk.digest); }));
  return is_lost;
}

absl::Status SurvivingEntries::Examine(absl::Status& damage) {
  SalvagingTreeReader tree = OpenTree([&](const TreeGap& gap) {
    is_whole_ = false;
    damage.Update(DescribeGap(gap));
  });
  SurvivingIdentities identities(reader_, identity_);
  SalvagedEntry next;
  while (true) {
    KERF_RETURN_IF_ERROR(CheckCancelled());
    KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
    if (!more) break;
    const std::string& target = next.entry.node.hard_link_to;
    if (!target.empty()) link_targets_.insert(target);
    if (is_whole_) KERF_RETURN_IF_ERROR(identities.Next().status());
    if (!without_lost_content_ || !damage.ok()) continue;
    KERF_ASSIGN_OR_RETURN(const bool is_lost, HasLostContent(next.entry));
    if (!is_lost) continue;
    is_whole_ = false;
    damage = absl::DataLossError(
        ToAbsl(Cat("no pack holds all of the content of /", next.entry.node.path)));
  }
  if (is_whole_) damage.Update(identities.damage());
  return absl::OkStatus();
}

absl::StatusOr<bool> SurvivingEntries::Admit(SalvagedEntry& next, RepairedTree& report) {
  Node& node = next.entry.node;
  store::v1::Salvage& salvage = report.salvage;
  const auto leave_out = [&](const std::string& why) {
    salvage.set_left_out_count(salvage.left_out_count() + 1);
    Lose(node.path, absl::DataLossError(ToAbsl(why)), report);
    return false;
  };
  if (next.is_made_up) {
    node.uid = geteuid();
    node.gid = getegid();
    salvage.set_made_up_count(salvage.made_up_count() + 1);
    Lose(node.path, absl::DataLossError("nothing is left of this directory but its name"), report);
  }
  if (next.is_doubtful && !options_.trust_doubtful) {
    const Withheld withheld = WithholdRights(node);
    if (withheld == Withheld::kNode) return leave_out(std::string(DescribeWithheld(withheld)));
    if (withheld == Withheld::kRights) {
      salvage.set_withheld_count(salvage.withheld_count() + 1);
      Lose(node.path, absl::DataLossError(ToAbsl(DescribeWithheld(withheld))), report);
    }
  }
  if (!node.hard_link_to.empty() && !kept_targets_.contains(node.hard_link_to)) {
    return leave_out(Cat("it is a hard link to /", node.hard_link_to, ", which is lost"));
  }
  if (without_lost_content_) {
    KERF_ASSIGN_OR_RETURN(const bool is_lost, HasLostContent(next.entry));
    if (is_lost) return leave_out("no pack holds all of its content");
  }
  if (link_targets_.contains(node.path)) kept_targets_.insert(node.path);
  return true;
}

absl::Status SurvivingEntries::Visit(const Sink& sink, RepairedTree& report) {
  store::v1::Salvage& salvage = report.salvage;
  salvage.set_replaces(snapshot_.id());
  kept_targets_.clear();
  SalvagingTreeReader tree = OpenTree([&](const TreeGap& gap) {
    salvage.set_gap_count(salvage.gap_count() + 1);
    Lose(gap.behind, DescribeGap(gap), report);
  });
  SurvivingIdentities identities(reader_, identity_);
  SalvagedEntry next;
  std::uint64_t found_count = 0;
  while (true) {
    KERF_RETURN_IF_ERROR(CheckCancelled());
    KERF_ASSIGN_OR_RETURN(const bool more, tree.Next(next));
    if (!more) break;
    NodeIdentity identity;
    if (!next.is_made_up) ++found_count;
    // Behind a gap nobody knows for certain how many entries are missing.
    if (salvage.gap_count() == 0) {
      KERF_ASSIGN_OR_RETURN(identity, identities.Next());
    }
    KERF_ASSIGN_OR_RETURN(const bool is_kept, Admit(next, report));
    if (is_kept) KERF_RETURN_IF_ERROR(sink(next.entry, identity));
  }
  const std::uint64_t promised_count = snapshot_.stats().entry_count();
  if (salvage.gap_count() > 0 && promised_count > found_count) {
    salvage.set_lost_entry_count(promised_count - found_count);
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
