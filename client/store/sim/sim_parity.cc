// What must hold of the parity of a simulated store.
#include <algorithm>
#include <filesystem>

#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/pack_files.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/sim/sim_world.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

absl::StatusOr<std::vector<PackId>> ListParity(const std::string& directory) {
  if (!std::filesystem::exists(ParityDirectory(directory))) return std::vector<PackId>();
  return ListPackFiles(ParityDirectory(directory), kParitySuffix);
}

}  // namespace

absl::Status SimWorld::CheckParity() {
  KERF_ASSIGN_OR_RETURN(const std::vector<PackId> ids, ListParity(test.directory()));
  for (const PackId& id : ids) {
    KERF_ASSIGN_OR_RETURN(const ParityFile parity,
                          ParityFile::Open(ParityPath(test.directory(), id), id));
    KERF_RETURN_IF_ERROR(parity.Check());
    const std::string pack = packs_->PackPath(id);
    if (std::filesystem::exists(pack)) KERF_RETURN_IF_ERROR(parity.CheckFits(pack));
  }
  return absl::OkStatus();
}

absl::Status SimWorld::CheckSnapshotsHaveParity() {
  KERF_RETURN_IF_ERROR(packs_->Refresh());
  KERF_ASSIGN_OR_RETURN(const SnapshotList list, test.store().ListSnapshots());
  ChunkReader reader(*packs_, ChunkReader::Options());
  for (const store::v1::Snapshot& snapshot : list.snapshots) {
    absl::Status status;
    const auto look = [&](const ChunkRef& chunk) {
      const std::vector<ChunkPlace> places = packs_->LocateAll(chunk.digest);
      const bool has_parity =
          std::any_of(places.begin(), places.end(), [&](const ChunkPlace& place) {
            return std::filesystem::exists(ParityPath(test.directory(), place.pack->id));
          });
      if (has_parity || !status.ok()) return;
      status = absl::DataLossError(Cat("no pack with parity holds a chunk of ", snapshot.id()));
    };
    KERF_RETURN_IF_ERROR(VisitSnapshot(snapshot, DigestSizeBytes(test.store().digest_algorithm()),
                                       reader, look, EntryVisitor()));
    KERF_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status SimWorld::CheckParityAtEnd() {
  KERF_RETURN_IF_ERROR(CheckParity());
  KERF_ASSIGN_OR_RETURN(const std::vector<PackId> ids, ListParity(test.directory()));
  KERF_ASSIGN_OR_RETURN(const std::vector<PackId> packs,
                        ListPackFiles(test.store().packs_directory(), ".pack"));
  if (!std::includes(packs.begin(), packs.end(), ids.begin(), ids.end())) {
    return absl::InternalError("parity stays whose pack is gone");
  }
  // Packs lack it behind a power cut, or where the disk was too full for it.
  if (parity_percent == 0 || refused_parity_count > 0 || ids == packs) return absl::OkStatus();
  return absl::InternalError(Cat(packs.size() - ids.size(), " packs have no parity"));
}

}  // namespace kerf::agent
