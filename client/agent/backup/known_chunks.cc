#include "client/agent/backup/known_chunks.h"

#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

std::uint64_t DefaultMemoryBytes() {
  const auto memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(kByPlaceBytes, memory_bytes / 4);
}

}  // namespace

KnownChunks::KnownChunks(std::string packs_directory, Options options)
    : options_(std::move(options)),
      memory_bytes_(options_.memory_bytes.value_or(DefaultMemoryBytes())),
      placed_(std::move(packs_directory), {std::max(memory_bytes_ / 4, kMinFooterBytes),
                                           std::max(memory_bytes_ / 4, kMinOwnBytes)}),
      metadata_(placed_, NamedPlaces::Moved::kIsLookedFor, [this] { return is_stopped(); }) {}

absl::Status KnownChunks::Open(const CollectionGuard& guard) {
  guard_ = &guard;
  KERF_RETURN_IF_ERROR(placed_.Open());
  if (memory_bytes_ == 0) return absl::OkStatus();
  std::uint64_t max_chunk_count = MaxIndexedChunks();
  if (options_.memory_bytes.has_value()) {
    max_chunk_count = std::min(max_chunk_count, memory_bytes_ / 2 / kIndexBytesPerChunk);
  }
  auto list = std::make_unique<ChunkIndex>(placed_.packs_directory(), SeenPacks::kAreDurable,
                                           max_chunk_count);
  list->EndWhen([this] { return is_stopped(); });
  KERF_ASSIGN_OR_RETURN(const bool fits, list->RefreshIfItFits());
  if (!fits) return absl::OkStatus();
  distrusted_ = guard.Distrusted(*list);
  list_ = std::move(list);
  return absl::OkStatus();
}

std::optional<ChunkPlace> KnownChunks::Find(const Digest& digest) const {
  // What this run has stored it has stored because the rest was not to be counted on.
  if (auto own = placed_.FindOwn(digest); own.has_value()) return own;
  if (list_ == nullptr || distrusted_.contains(digest)) return std::nullopt;
  return list_->Locate(digest);
}

std::optional<ChunkPlace> KnownChunks::FindNamed(const ChunkRef& chunk, std::string_view locator) {
  std::optional<ChunkPlace> place = placed_.At(chunk, locator);
  if (place.has_value() && guard_->Condemns(*place)) return std::nullopt;
  return place;
}

std::optional<std::uint32_t> KnownChunks::LengthAt(const Digest& digest, std::string_view locator) {
  std::optional<ChunkPlace> place = Find(digest);
  if (!place.has_value()) place = placed_.At(digest, locator);
  if (!place.has_value()) return std::nullopt;
  return place->chunk().length_bytes;
}

std::vector<std::string> KnownChunks::AskForPlaces(std::span<const ChunkRef> chunks) {
  std::vector<std::string> locators(chunks.size());
  std::vector<Digest> digests;
  for (std::size_t begin = 0; begin < chunks.size(); begin += kMaxIndexBatch) {
    if (has_given_up_ || !options_.look_up) break;
    const auto batch = chunks.subspan(begin, std::min(kMaxIndexBatch, chunks.size() - begin));
    digests.clear();
    for (const ChunkRef& chunk : batch) digests.push_back(chunk.digest);
    std::uint64_t index_epoch = 0;
    absl::StatusOr<std::vector<IndexAnswer>> answers =
        options_.look_up(guard_->epoch(), digests, index_epoch, cancellation_);
    index_epoch_ = std::max(index_epoch_, index_epoch);
    if (answers.ok() && answers->size() != digests.size()) {
      answers = absl::DataLossError("the index answers something else than it was asked");
    }
    if (!answers.ok()) {
      has_given_up_ = true;
      if (options_.on_look_up_failed && !cancellation_.cancelled()) {
        options_.on_look_up_failed(answers.status());
      }
      break;
    }
    for (std::size_t at = 0; at < batch.size(); ++at) {
      locators[begin + at] = std::move((*answers)[at].locator);
    }
  }
  return locators;
}

bool KnownChunks::AreWhereTheIndexSays(std::span<const ChunkRef> chunks) {
  const std::vector<std::string> locators = AskForPlaces(chunks);
  for (std::size_t at = 0; at < chunks.size(); ++at) {
    if (!FindNamed(chunks[at], locators[at]).has_value()) return false;
  }
  return true;
}

void KnownChunks::Expect(std::span<const ChunkRef> chunks) {
  if (!is_by_place()) return;
  expected_.clear();
  const std::vector<std::string> locators = AskForPlaces(chunks);
  for (std::size_t at = 0; at < chunks.size(); ++at) {
    expected_[chunks[at].digest] = FindNamed(chunks[at], locators[at]).has_value();
  }
}

bool KnownChunks::HoldAll(std::span<const ChunkRef> chunks) {
  std::vector<ChunkRef> unknown;
  for (const ChunkRef& chunk : chunks) {
    if (Find(chunk.digest).has_value()) continue;
    if (!is_by_place()) return false;
    if (const auto found = expected_.find(chunk.digest); found != expected_.end()) {
      if (!found->second) return false;
      continue;
    }
    unknown.push_back(chunk);
    if (unknown.size() < kMaxIndexBatch) continue;
    if (!AreWhereTheIndexSays(unknown)) return false;
    unknown.clear();
  }
  return AreWhereTheIndexSays(unknown);
}

ChunkPlaces& KnownChunks::PlacesOf(std::span<const ChunkRef> metadata) {
  if (!is_by_place()) return *list_;
  others_ = std::make_unique<NamedPlaces>(placed_, NamedPlaces::Moved::kStaysAway);
  const std::vector<std::string> locators = AskForPlaces(metadata);
  for (std::size_t at = 0; at < metadata.size(); ++at) others_->Name(metadata[at], locators[at]);
  return *others_;
}

absl::StatusOr<FinishCheck> KnownChunks::Check(const Store& store, const Visit& visit) {
  const auto visit_with = [&](ChunkPlaces& places) {
    return [&](const ChunkVisitor& visit_chunk) {
      ChunkReader reader(places, ChunkReader::Options());
      return visit(reader, visit_chunk);
    };
  };
  if (!is_by_place()) {
    absl::StatusOr<FinishCheck> check = guard_->Check(store, *list_, visit_with(*list_));
    // The store may have outgrown the list.
    if (!IsTooManyChunks(check.status())) return check;
  }
  const CollectionGuard::Limits limits{
      std::max<std::size_t>(memory_bytes_ / 4 / kSoughtChunkBytes, kMinSoughtChunks),
      kMaxLostChunks};
  return guard_->CheckByFooters(store, limits, visit_with(metadata_),
                                [this] { return is_stopped(); });
}

}  // namespace kerf::agent
