#include "server/index/entry_batch.h"

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "server/index/rocksdb_store.h"

namespace kerf {
namespace {

// A digest by its first bytes, which nearly always tell which of two is first, and lie side by side
// here.
struct Placed {
  std::uint64_t begin = 0;
  std::size_t index = 0;
};

std::uint64_t BeginOf(const Digest& digest) {
  std::uint64_t begin = 0;
  for (std::size_t index = 0; index < sizeof begin; ++index) {
    begin = begin << 8 | digest.bytes[index];
  }
  return begin;
}

template <typename DigestAt>
std::vector<Placed> Place(std::size_t count, const DigestAt& digest_at) {
  std::vector<Placed> places;
  places.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    places.push_back({BeginOf(digest_at(index)), index});
  }
  std::sort(places.begin(), places.end(), [&digest_at](const Placed& a, const Placed& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    const Digest& first = digest_at(a.index);
    const Digest& second = digest_at(b.index);
    return first == second ? a.index < b.index : first < second;
  });
  return places;
}

std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace

std::vector<std::size_t> InDigestOrder(std::span<const Digest> digests) {
  std::vector<std::size_t> order;
  order.reserve(digests.size());
  const auto places = Place(
      digests.size(), [digests](std::size_t index) -> const Digest& { return digests[index]; });
  for (const Placed& place : places) order.push_back(place.index);
  return order;
}

std::vector<const IndexEntry*> InDigestOrder(std::span<const IndexEntry> entries) {
  std::vector<const IndexEntry*> order;
  order.reserve(entries.size());
  const auto places = Place(entries.size(), [entries](std::size_t index) -> const Digest& {
    return entries[index].digest;
  });
  for (const Placed& place : places) order.push_back(&entries[place.index]);
  return order;
}

EntryBatch::EntryBatch(const RepositoryId& repository, std::string_view prefix, std::size_t count)
    : repository_(repository),
      prefix_(prefix),
      key_bytes_(prefix.size() + DigestSizeBytes(repository.digest_algorithm)) {
  keys_.reserve(count * key_bytes_);
}

void EntryBatch::Add(const Digest& digest) {
  keys_.append(prefix_);
  keys_.append(index_codec::DigestKey(repository_, digest));
  ++count_;
}

void EntryBatch::SetAbsent(std::size_t index) {
  is_absent_.resize(count_);
  absent_count_ += is_absent_[index] ? 0 : 1;
  is_absent_[index] = true;
}

absl::Status EntryBatch::Read(rocksdb::DB& database) {
  const std::size_t asked_count = count_ - absent_count_;
  if (asked_count == 0) return absl::OkStatus();
  slices_.reserve(asked_count);
  if (absent_count_ > 0) places_.resize(count_);
  for (std::size_t index = 0; index < count_; ++index) {
    if (absent_count_ > 0) {
      if (is_absent_[index]) continue;
      places_[index] = slices_.size();
    }
    slices_.push_back(key(index));
  }
  values_.resize(asked_count);
  statuses_.resize(asked_count);
  database.MultiGet(rocksdb::ReadOptions(), database.DefaultColumnFamily(), asked_count,
                    slices_.data(), values_.data(), statuses_.data(), /*sorted_input=*/true);
  for (const rocksdb::Status& status : statuses_) {
    if (!status.ok() && !status.IsNotFound()) return FromRocksDb(status, "reading the index");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<index_codec::EntryValue>> EntryBatch::value(std::size_t index) const {
  if (absent_count_ > 0 && is_absent_[index]) return std::nullopt;
  const std::size_t place = absent_count_ > 0 ? places_[index] : index;
  if (statuses_[place].IsNotFound()) return std::nullopt;
  KERF_ASSIGN_OR_RETURN(const index_codec::EntryValue entry,
                        index_codec::ParseEntry(ToView(values_[place])));
  return entry;
}

}  // namespace kerf
