// What keeps the snapshots of a simulated world, brings them back, and mends its packs.
#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/undelete.h"
#include "client/store/format/durable_file.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/parity/mender.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/repair/pack_repair.h"
#include "client/store/sim/sim_world.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

constexpr int kMaxPins = 1;
// Few, so that collections are quick.
constexpr std::size_t kMaxPutBack = 3;

}  // namespace

void SimWorld::BringBackSnapshot() {
  const SnapshotList list = *test.store().ListForgotten();
  // More rarely than others are forgotten.
  if (list.snapshots.empty() || !random.OneIn(8)) return;
  const std::string id = list.snapshots[random.Below(list.snapshots.size())].id();
  const absl::Status status = Undelete(test.store(), id);
  if (status.ok()) {
    ++undeleted_count;
    promises.push_back({Promise::Kind::kSnapshot, id, true});
    return;
  }
  // A collection has taken some of it, or is about to.
  ++refused_undelete_count;
  if (!absl::IsDataLoss(status) && failure_.ok()) failure_ = Annotate(status, "undelete");
}

void SimWorld::PinOrUnpin() {
  const SnapshotList list = *test.store().ListSnapshots();
  if (list.snapshots.empty() || !random.OneIn(4)) return;
  const std::string id = list.snapshots[random.Below(list.snapshots.size())].id();
  const Pins pins = test.store().pins();
  const bool is_pinned = pins.Has(id);
  // Few, so that the others are forgotten.
  if (!is_pinned && pin_count_ == kMaxPins) return;
  pin_count_ += is_pinned ? -1 : 1;
  if (is_pinned) {
    promises.push_back({Promise::Kind::kPin, id, false});
    KERF_CHECK(pins.Remove(id).ok());
    return;
  }
  store::v1::SnapshotPin pin;
  pin.set_id(id);
  KERF_CHECK(test.store().PinSnapshot(pin).ok());
  promises.push_back({Promise::Kind::kPin, id, true});
}

absl::StatusOr<DigestSet> SimWorld::NeededChunks() {
  DigestSet needed;
  for (const auto& agent : agents_) {
    const FileChunks files = agent->files_at_work();
    std::vector<std::string> chunks;
    if (!files.empty()) test.Describe(files, chunks);
    for (const auto& [path, pieces] : files) {
      chunks.insert(chunks.end(), pieces.begin(), pieces.end());
    }
    for (const std::string& chunk : chunks) needed.insert(RefOf(chunk).digest);
  }
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(test.store()));
  ChunkReader reader(*packs_, ChunkReader::Options());
  for (const SnapshotList* list : {&roots.checked, &roots.pending, &roots.forgotten}) {
    for (const store::v1::Snapshot& snapshot : list->snapshots) {
      const absl::Status status = VisitSnapshot(
          snapshot, DigestSizeBytes(test.store().digest_algorithm()), reader,
          [&](const ChunkRef& chunk) { needed.insert(chunk.digest); }, EntryVisitor());
      // The others may have lost some of it.
      if (list == &roots.checked) KERF_RETURN_IF_ERROR(status);
    }
  }
  return needed;
}

std::optional<std::string> SimWorld::RotOnePack() {
  KERF_CHECK(packs_->Refresh().ok());
  const absl::StatusOr<DigestSet> needed = NeededChunks();
  KERF_CHECK(needed.ok());
  std::vector<std::shared_ptr<const KnownPack>> candidates;
  for (const auto& pack : packs_->packs()) {
    const std::vector<PackChunk>& chunks = pack->footer.chunks;
    const bool is_missed = std::any_of(chunks.begin(), chunks.end(), [&](const PackChunk& chunk) {
      const std::vector<ChunkPlace> places = packs_->LocateAll(chunk.digest);
      const bool has_other =
          std::any_of(places.begin(), places.end(),
                      [&](const ChunkPlace& place) { return place.pack != pack; });
      return needed->contains(chunk.digest) && !has_other;
    });
    // What is lost below is one sector, which its parity gives back.
    const bool can_be_mended = CheckMendable(packs_->PackPath(pack->id), pack->id).ok();
    if (!is_missed || can_be_mended) candidates.push_back(pack);
  }
  if (candidates.empty()) return std::nullopt;
  const KnownPack& pack = *candidates[random.Below(candidates.size())];
  const std::string path = packs_->PackPath(pack.id);
  const std::string parity = ParityPathOf(path);
  if (std::filesystem::exists(parity)) ++mended_with_parity_count;
  if (std::filesystem::exists(parity) && random.OneIn(4)) {
    std::string bytes = ReadTestFile(parity);
    bytes[random.Below(bytes.size())] ^= 4;
    WriteTestFile(parity, bytes);
    return path;
  }
  std::string bytes = ReadTestFile(path);
  if (random.OneIn(3)) {
    // Without its trailer nobody finds its footer.
    bytes.pop_back();
  } else {
    const PackBlock& block = pack.footer.blocks[random.Below(pack.footer.blocks.size())];
    bytes[block.offset + random.Below(block.stored_bytes)] ^= 4;
  }
  // No FileHook sees it: what a power cut leaves in between must still be whole.
  WriteTestFile(path, bytes);
  return path;
}

bool SimWorld::IsSound(const std::string& path) {
  ChunkIndex packs(test.store().packs_directory());
  KERF_CHECK(packs.Refresh().ok());
  ChunkReader reader(packs, ChunkReader::Options());
  for (const auto& known : packs.packs()) {
    if (packs.PackPath(known->id) != path) continue;
    const std::vector<PackChunk>& chunks = known->footer.chunks;
    for (std::uint32_t at = 0; at < chunks.size(); ++at) {
      const ChunkRef chunk{chunks[at].digest, chunks[at].length_bytes};
      if (!reader.ReadAt({known, at}, chunk).ok()) return false;
    }
    return true;
  }
  return false;
}

absl::Status SimWorld::Repair() {
  const std::optional<std::string> path = RotOnePack();
  if (!path.has_value()) return absl::OkStatus();
  bool crashed = true;
  while (crashed) {
    PackRepairOptions options;
    options.thread_count = 1;
    options.on_step = StepsOf(true, crashed);
    crashed = false;
    const absl::StatusOr<PackRepairReport> report = RepairPacks(test.store(), options);
    // Nobody goes on before it is run again: to a backup such a pack is as good as any.
    if (crashed) continue;
    KERF_RETURN_IF_ERROR(Annotate(report.status(), "repair"));
    if (report->lost_count > 0) {
      return absl::DataLossError(
          Cat("a repair has lost what snapshots need: ", MessageOf(report->lost.front().status)));
    }
  }
  ++mended_pack_count;
  // Not each bit of a compressed block says something.
  if (std::filesystem::exists(*path) && !IsSound(*path)) {
    return absl::InternalError("a rotten pack stays");
  }
  KERF_RETURN_IF_ERROR(Annotate(CheckParity(), "behind a repair"));
  KERF_RETURN_IF_ERROR(test.RestoreAll());
  return CheckIndex();
}

// So that a FileHook sees it.
void SimWorld::Write(const std::string& path, const std::string& bytes) {
  const std::span<const std::uint8_t> span(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                           bytes.size());
  KERF_CHECK(WriteFileDurably(path, test.store().temporary_directory(), span).ok());
}

std::map<std::string, std::string> SimWorld::ReadForgotten() {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(test.store().forgotten_directory())) {
    if (files.size() == kMaxPutBack) break;
    files[entry.path().filename()] = ReadTestFile(entry.path());
  }
  return files;
}

void SimWorld::PutForgottenBack(const std::map<std::string, std::string>& files) {
  for (const auto& [name, bytes] : files) {
    // One that was brought back meanwhile, and perhaps forgotten again.
    if (MayExist(Cat(test.store().snapshots_directory(), "/", name)) ||
        MayExist(Cat(test.store().forgotten_directory(), "/", name))) {
      continue;
    }
    Write(Cat(test.store().forgotten_directory(), "/", name), bytes);
  }
}

}  // namespace kerf::agent
