#include "client/store/collect/collection_plan.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/little_endian.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/framed_file.h"

namespace kerf::agent {
namespace {

// Target epoch, flags, count of packs; min_index_epoch, if the flags say so, comes before the
// count.
constexpr std::size_t kHeadBytes = 8 + 4 + 4;
constexpr std::uint32_t kFlagIndexIsBehind = 1;
constexpr std::uint32_t kFlagHasMinIndexEpoch = 2;
constexpr std::size_t kPackHeadBytes = 16 + 4;
constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{1} << 32;

template <typename T>
T Take(std::span<const std::uint8_t>& bytes) {
  const T value = LoadLittleEndian<T>(bytes.data());
  bytes = bytes.subspan(sizeof value);
  return value;
}

std::size_t BitmapBytes(std::uint64_t bit_count) { return (bit_count + 7) / 8; }

bool Before(const PlannedPack& pack, const PackId& id) { return pack.id < id; }

absl::StatusOr<PlannedPack> TakePack(std::span<const std::uint8_t>& bytes) {
  if (bytes.size() < kPackHeadBytes) return absl::DataLossError("its list of packs is cut short");
  PlannedPack pack;
  std::memcpy(pack.id.bytes.data(), bytes.data(), pack.id.bytes.size());
  bytes = bytes.subspan(pack.id.bytes.size());
  const auto chunk_count = Take<std::uint32_t>(bytes);
  if (bytes.size() < BitmapBytes(chunk_count)) {
    return absl::DataLossError("its list of chunks is cut short");
  }
  pack.condemned.resize(chunk_count);
  for (std::size_t index = 0; index < chunk_count; ++index) {
    pack.condemned[index] = (bytes[index / 8] >> (index % 8) & 1) != 0;
  }
  bytes = bytes.subspan(BitmapBytes(chunk_count));
  return pack;
}

}  // namespace

const PlannedPack* CollectionPlan::Find(const PackId& pack) const {
  const auto found = std::lower_bound(packs.begin(), packs.end(), pack, Before);
  return found != packs.end() && found->id == pack ? &*found : nullptr;
}

bool CollectionPlan::Condemns(const PackId& pack, std::uint32_t chunk_index) const {
  const PlannedPack* planned = Find(pack);
  if (planned == nullptr) return false;
  // A chunk that the plan does not know of is not moved by it either.
  return chunk_index >= planned->condemned.size() || planned->condemned[chunk_index];
}

std::uint64_t PlannedBytes(std::size_t chunk_count) {
  return kPackHeadBytes + BitmapBytes(chunk_count);
}

std::vector<std::uint8_t> EncodeCollectionPlan(const CollectionPlan& plan) {
  std::vector<std::uint8_t> bytes;
  AppendLittleEndian(bytes, plan.target_epoch);
  AppendLittleEndian(bytes, (plan.index_is_behind ? kFlagIndexIsBehind : 0u) |
                                (plan.min_index_epoch.has_value() ? kFlagHasMinIndexEpoch : 0u));
  if (plan.min_index_epoch.has_value()) AppendLittleEndian(bytes, *plan.min_index_epoch);
  AppendLittleEndian(bytes, static_cast<std::uint32_t>(plan.packs.size()));
  for (const PlannedPack& pack : plan.packs) {
    bytes.insert(bytes.end(), pack.id.bytes.begin(), pack.id.bytes.end());
    AppendLittleEndian(bytes, static_cast<std::uint32_t>(pack.condemned.size()));
    const std::size_t start = bytes.size();
    bytes.resize(start + BitmapBytes(pack.condemned.size()));
    for (std::size_t index = 0; index < pack.condemned.size(); ++index) {
      if (pack.condemned[index]) {
        bytes[start + index / 8] |= static_cast<std::uint8_t>(1u << (index % 8));
      }
    }
  }
  return EncodeFramed(kPlanMagic,
                      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

absl::StatusOr<CollectionPlan> DecodeCollectionPlan(std::span<const std::uint8_t> bytes) {
  KERF_ASSIGN_OR_RETURN(const std::string payload, DecodeFramed(kPlanMagic, bytes));
  if (payload.size() < kHeadBytes) return absl::DataLossError("it is cut short");
  std::span<const std::uint8_t> rest(reinterpret_cast<const std::uint8_t*>(payload.data()),
                                     payload.size());
  CollectionPlan plan;
  plan.target_epoch = Take<std::uint64_t>(rest);
  const auto flags = Take<std::uint32_t>(rest);
  if (flags > (kFlagIndexIsBehind | kFlagHasMinIndexEpoch)) {
    return absl::DataLossError("its flags are unknown");
  }
  plan.index_is_behind = (flags & kFlagIndexIsBehind) != 0;
  if ((flags & kFlagHasMinIndexEpoch) != 0) {
    if (rest.size() < sizeof(std::uint64_t) + sizeof(std::uint32_t)) {
      return absl::DataLossError("it is cut short");
    }
    plan.min_index_epoch = Take<std::uint64_t>(rest);
  }
  const auto pack_count = Take<std::uint32_t>(rest);
  for (std::uint32_t index = 0; index < pack_count; ++index) {
    KERF_ASSIGN_OR_RETURN(PlannedPack pack, TakePack(rest));
    if (!plan.packs.empty() && !(plan.packs.back().id < pack.id)) {
      return absl::DataLossError("its packs are not in order");
    }
    plan.packs.push_back(std::move(pack));
  }
  if (!rest.empty()) return absl::DataLossError("bytes follow its last pack");
  return plan;
}

absl::StatusOr<std::optional<CollectionPlan>> ReadCollectionPlan(const std::string& path) {
  const absl::StatusOr<std::vector<std::uint8_t>> bytes = ReadWholeFile(path, kMaxPlanBytes);
  if (absl::IsNotFound(bytes.status())) return std::optional<CollectionPlan>();
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<CollectionPlan> plan = DecodeCollectionPlan(*bytes);
  if (absl::IsDataLoss(plan.status())) {
    return Annotate(plan.status(), Cat(path, ": run `kerf gc`, which replaces it"));
  }
  if (!plan.ok()) return Annotate(plan.status(), path);
  return std::optional<CollectionPlan>(*std::move(plan));
}

absl::Status WriteCollectionPlan(const std::string& path, const std::string& temporary_directory,
                                 const CollectionPlan& plan) {
  return WriteFileDurably(path, temporary_directory, EncodeCollectionPlan(plan));
}

absl::Status RemoveCollectionPlan(const std::string& path) {
  const absl::Status status = RemoveFile(path);
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return SyncDirectory(DirectoryOf(path));
}

}  // namespace kerf::agent
