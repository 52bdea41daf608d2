#include "client/store/packs/placed_chunks.h"

#include <utility>

#include "base/status.h"

namespace kerf::agent {

absl::Status PlacedChunks::Open() {
  KERF_ASSIGN_OR_RETURN(const std::vector<PackId> ids, ListPacks(packs_directory_));
  KERF_RETURN_IF_ERROR(MakePackNamesDurable(packs_directory_, ids));
  const std::lock_guard lock(names_mutex_);
  durable_.insert(ids.begin(), ids.end());
  return absl::OkStatus();
}

std::optional<ChunkPlace> PlacedChunks::At(const ChunkRef& chunk, std::string_view locator) {
  std::optional<ChunkPlace> place = At(chunk.digest, locator);
  if (place.has_value() && place->chunk().length_bytes != chunk.length_bytes) return std::nullopt;
  return place;
}

std::optional<ChunkPlace> PlacedChunks::At(const Digest& digest, std::string_view locator) {
  const std::optional<Locator> named = DecodeLocator(locator);
  if (!named.has_value()) return std::nullopt;
  const auto pack = footers_.Get(named->pack);
  if (!pack.ok()) return std::nullopt;
  const std::vector<PackChunk>& chunks = (*pack)->footer.chunks;
  if (named->chunk_index >= chunks.size() || chunks[named->chunk_index].digest != digest) {
    return std::nullopt;
  }
  if (!IsNameDurable(named->pack)) return std::nullopt;
  return ChunkPlace{*pack, named->chunk_index};
}

// Of a pack that was seen.
bool PlacedChunks::IsNameDurable(const PackId& id) {
  const std::lock_guard lock(names_mutex_);
  if (durable_.contains(id)) return true;
  // Another agent has sealed it since Open, and may die before its name is durable.
  if (!MakePackNamesDurable(packs_directory_, {id}).ok()) return false;
  durable_.insert(id);
  return true;
}

void PlacedChunks::AddPack(SealedPack sealed) {
  const auto pack = std::make_shared<const KnownPack>(
      KnownPack{sealed.id, std::move(sealed.footer), sealed.file_bytes});
  {
    const std::lock_guard lock(names_mutex_);
    durable_.insert(pack->id);
  }
  const std::lock_guard lock(own_mutex_);
  const std::uint32_t number = first_number_ + static_cast<std::uint32_t>(own_.size());
  own_.push_back(pack);
  own_bytes_ += BytesOf(*pack);
  const auto count = static_cast<std::uint32_t>(pack->footer.chunks.size());
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto [row, inserted] = rows_.insert({number, index});
    if (inserted) continue;
    rows_.erase(row);
    rows_.insert({number, index});
  }
  while (own_bytes_ > max_own_bytes_) ForgetFirstOwn();
}

void PlacedChunks::ForgetFirstOwn() {
  const std::shared_ptr<const KnownPack> pack = own_.front();
  const auto count = static_cast<std::uint32_t>(pack->footer.chunks.size());
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto row = rows_.find(pack->footer.chunks[index].digest);
    // A later pack may have it, too.
    if (row != rows_.end() && row->number == first_number_) rows_.erase(row);
  }
  own_bytes_ -= BytesOf(*pack);
  own_.pop_front();
  ++first_number_;
}

std::optional<ChunkPlace> PlacedChunks::FindOwn(const Digest& digest) const {
  const std::lock_guard lock(own_mutex_);
  const auto row = rows_.find(digest);
  if (row == rows_.end()) return std::nullopt;
  return ChunkPlace{OwnPack(*row), row->chunk_index};
}

std::uint64_t PlacedChunks::own_bytes() const {
  const std::lock_guard lock(own_mutex_);
  return own_bytes_;
}

void NamedPlaces::Name(const ChunkRef& chunk, std::string_view locator) {
  const std::optional<Locator> named = DecodeLocator(locator);
  if (!named.has_value()) return;
  const std::lock_guard lock(mutex_);
  named_.insert_or_assign(chunk.digest, Named{chunk.length_bytes, *named});
}

std::optional<ChunkPlace> NamedPlaces::Locate(const Digest& digest) const {
  Named named;
  {
    const std::lock_guard lock(mutex_);
    const auto found = named_.find(digest);
    if (found == named_.end()) return std::nullopt;
    named = found->second;
  }
  return chunks_.At(ChunkRef{digest, named.length_bytes},
                    EncodeLocator(named.locator.pack, named.locator.chunk_index));
}

std::vector<ChunkPlace> NamedPlaces::LocateAll(const Digest& digest) const {
  std::vector<ChunkPlace> places;
  if (auto place = Locate(digest); place.has_value()) places.push_back(*std::move(place));
  return places;
}

absl::StatusOr<bool> NamedPlaces::LookAgain() {
  if (moved_ == Moved::kStaysAway) return false;
  bool has_changed = false;
  const auto look_into = [&](const KnownPack& pack) {
    const std::lock_guard lock(mutex_);
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      const auto found = named_.find(chunks[index].digest);
      if (found == named_.end() || found->second.length_bytes != chunks[index].length_bytes) {
        continue;
      }
      found->second.locator = {pack.id, index};
      has_changed = true;
    }
  };
  KERF_RETURN_IF_ERROR(VisitDurablePacks(chunks_.packs_directory(), look_into, is_ended_));
  return has_changed;
}

}  // namespace kerf::agent
