#include "client/store/check/verify.h"

#include <unistd.h>

#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/block.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/recipe_stream.h"

namespace kerf::agent {
namespace {

class Verification {
 public:
  Verification(const Store& store, const VerifyOptions& options)
      : store_(store),
        options_(options),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        index_(store.packs_directory()),
        reader_(index_, ChunkReader::Options()) {}

  absl::StatusOr<VerifyReport> Run();

 private:
  void Find(std::string snapshot_id, std::string path, absl::Status status);
  void FindDamage(const std::string& pack_path, absl::Status status);
  void CheckSmallFiles();
  void CheckNotes();
  void CheckPack(const KnownPack& pack);
  void CheckBlocks(const KnownPack& pack, int fd, const std::string& path);
  void CheckChunks(const KnownPack& pack, std::uint32_t block_index,
                   std::span<const std::uint8_t> raw, std::size_t first_chunk,
                   std::size_t end_chunk, const std::string& path);
  void CheckSnapshot(const store::v1::Snapshot& snapshot);
  absl::Status CheckTree(const store::v1::Snapshot& snapshot, std::vector<VerifyFinding>& findings);
  void ForgetDamageWithSoundCopies(const std::vector<std::shared_ptr<const KnownPack>>& packs);
  absl::Status CheckReference(const ChunkRef& chunk);
  void AddProgress(const std::function<void(VerifyProgress&)>& change);

  const Store& store_;
  const VerifyOptions& options_;
  const std::size_t digest_size_bytes_;
  ChunkIndex index_;
  ChunkReader reader_;

  std::mutex mutex_;
  VerifyReport report_;
  // Of each chunk whose bytes are not what its digest says: in how many packs. Once all packs are
  // read, only those remain that no pack holds undamaged.
  absl::flat_hash_map<Digest, std::uint64_t, DigestHash> damaged_;
};

void Verification::Find(std::string snapshot_id, std::string path, absl::Status status) {
  const std::lock_guard lock(mutex_);
  ++report_.finding_count;
  if (report_.findings.size() >= kMaxFindings) return;
  report_.findings.push_back({std::move(snapshot_id), std::move(path), std::move(status)});
}

void Verification::FindDamage(const std::string& pack_path, absl::Status status) {
  Find("", "", std::move(status));
  const std::lock_guard lock(mutex_);
  report_.damaged_packs.insert(pack_path);
}

void Verification::AddProgress(const std::function<void(VerifyProgress&)>& change) {
  const std::lock_guard lock(mutex_);
  change(report_.done);
  if (options_.on_progress) options_.on_progress(report_.done);
}

void Verification::CheckSmallFiles() {
  for (StoreFlaw& flaw : FindFlaws(store_.directory())) Find("", "", std::move(flaw.status));
  if (const absl::Status status = store_.ReadEpoch().status(); !status.ok()) {
    Find("", "", status);
  }
  if (const absl::Status status = ReadCollectionPlan(store_.plan_path()).status(); !status.ok()) {
    Find("", "", status);
  }
}

void Verification::CheckNotes() {
  const absl::StatusOr<std::vector<std::string>> ids = store_.manifest().ListIds();
  // Of kerf 0.1.0; that it is gone is a flaw of the store.
  if (absl::IsNotFound(ids.status())) return;
  if (!ids.ok()) return Find("", "", ids.status());
  for (const std::string& id : *ids) {
    const absl::Status status = store_.manifest().Read(id).status();
    if (!status.ok() && !absl::IsNotFound(status)) Find("", "", status);
  }
}

void Verification::CheckChunks(const KnownPack& pack, std::uint32_t block_index,
                               std::span<const std::uint8_t> raw, std::size_t first_chunk,
                               std::size_t end_chunk, const std::string& path) {
  std::vector<std::span<const std::uint8_t>> bytes;
  for (std::size_t index = first_chunk; index < end_chunk; ++index) {
    const PackChunk& chunk = pack.footer.chunks[index];
    bytes.push_back(raw.subspan(chunk.offset_in_block, chunk.length_bytes));
  }
  std::vector<Digest> digests(bytes.size());
  FingerprintMany(pack.footer.digest_algorithm, bytes, digests);
  for (std::size_t index = first_chunk; index < end_chunk; ++index) {
    const Digest& expected = pack.footer.chunks[index].digest;
    if (digests[index - first_chunk] == expected) continue;
    FindDamage(path,
               absl::DataLossError(Cat(path, ": chunk ", DigestToHex(expected, digest_size_bytes_),
                                       " in block ", block_index, " is damaged")));
    const std::lock_guard lock(mutex_);
    ++damaged_[expected];
  }
}

void Verification::CheckBlocks(const KnownPack& pack, int fd, const std::string& path) {
  const std::vector<PackChunk>& chunks = pack.footer.chunks;
  std::size_t first_chunk = 0;
  while (first_chunk < chunks.size()) {
    const std::uint32_t block_index = chunks[first_chunk].block_index;
    std::size_t end_chunk = first_chunk;
    while (end_chunk < chunks.size() && chunks[end_chunk].block_index == block_index) ++end_chunk;
    const PackBlock& block = pack.footer.blocks[block_index];
    const absl::StatusOr<std::vector<std::uint8_t>> raw = ReadBlock(fd, path, block);
    if (raw.ok()) {
      CheckChunks(pack, block_index, *raw, first_chunk, end_chunk, path);
    } else {
      FindDamage(path, raw.status());
      const std::lock_guard lock(mutex_);
      for (std::size_t index = first_chunk; index < end_chunk; ++index) {
        ++damaged_[chunks[index].digest];
      }
    }
    AddProgress([&](VerifyProgress& done) { done.bytes_done += block.raw_bytes; });
    first_chunk = end_chunk;
  }
}

void Verification::CheckPack(const KnownPack& pack) {
  if (pack.footer.digest_algorithm != store_.digest_algorithm()) {
    Find("", "",
         absl::DataLossError(Cat(index_.PackPath(pack.id), ": its digest algorithm is ",
                                 DigestAlgorithmName(pack.footer.digest_algorithm),
                                 ", not that of the store")));
  }
  if (options_.read_data) {
    const std::string path = index_.PackPath(pack.id);
    const absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
    if (fd.ok()) {
      CheckBlocks(pack, fd->get(), path);
    } else if (!absl::IsNotFound(fd.status())) {
      // A pack that is gone was deleted by a collection; what it took with it is found below.
      Find("", "", fd.status());
    }
  }
  AddProgress([](VerifyProgress& done) { ++done.packs_done; });
}

void Verification::ForgetDamageWithSoundCopies(
    const std::vector<std::shared_ptr<const KnownPack>>& packs) {
  if (damaged_.empty()) return;
  absl::flat_hash_map<Digest, std::uint64_t, DigestHash> copies;
  for (const auto& pack : packs) {
    for (const PackChunk& chunk : pack->footer.chunks) {
      if (damaged_.contains(chunk.digest)) ++copies[chunk.digest];
    }
  }
  for (const auto& [digest, count] : copies) {
    if (damaged_[digest] < count) damaged_.erase(digest);
  }
}

absl::Status Verification::CheckReference(const ChunkRef& chunk) {
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  const std::string name = DigestToHex(chunk.digest, digest_size_bytes_);
  if (!place.has_value()) return absl::NotFoundError(Cat("no pack holds its chunk ", name));
  if (place->chunk().length_bytes != chunk.length_bytes) {
    return absl::DataLossError(Cat("its chunk ", name, " has ", chunk.length_bytes,
                                   " bytes in the recipe and ", place->chunk().length_bytes,
                                   " in the pack"));
  }
  if (damaged_.contains(chunk.digest)) {
    return absl::DataLossError(Cat("its chunk ", name, " is damaged"));
  }
  return absl::OkStatus();
}

absl::Status Verification::CheckTree(const store::v1::Snapshot& snapshot,
                                     std::vector<VerifyFinding>& findings) {
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> tree,
                        RecipeFromProto(snapshot.tree(), digest_size_bytes_));
  KERF_ASSIGN_OR_RETURN(std::vector<ChunkRef> identity,
                        RecipeFromProto(snapshot.identity(), digest_size_bytes_));
  TreeReader entries(ReadRecipe(reader_, std::move(tree)), digest_size_bytes_);
  IdentityReader identities(ReadRecipe(reader_, std::move(identity)));
  TreeEntry entry;
  NodeIdentity node_identity;
  std::uint64_t entry_count = 0;
  std::uint64_t reference_count = 0;
  while (true) {
    // One finding a file is enough, and one that is damaged may have thousands.
    absl::Status status;
    const auto check = [&](const ChunkRef& chunk) {
      if (!status.ok()) return;
      ++reference_count;
      status = CheckReference(chunk);
    };
    KERF_ASSIGN_OR_RETURN(const bool more, entries.Next(entry, check));
    KERF_ASSIGN_OR_RETURN(const bool more_identities, identities.Next(node_identity));
    if (more != more_identities) {
      return absl::DataLossError("its identity stream has not as many entries as its tree");
    }
    if (!more) break;
    ++entry_count;
    if (!status.ok()) findings.push_back({snapshot.id(), entry.node.path, std::move(status)});
  }
  {
    const std::lock_guard lock(mutex_);
    report_.entry_count += entry_count;
    report_.reference_count += reference_count;
  }
  if (entry_count != snapshot.stats().entry_count()) {
    return absl::DataLossError(Cat("its tree has ", entry_count, " entries; ",
                                   snapshot.stats().entry_count(), " were written"));
  }
  return absl::OkStatus();
}

void Verification::CheckSnapshot(const store::v1::Snapshot& snapshot) {
  std::vector<VerifyFinding> findings;
  if (absl::Status status = CheckTree(snapshot, findings); !status.ok()) {
    findings.push_back({snapshot.id(), "", std::move(status)});
  }
  const std::string path = Store::SnapshotPath(store_.snapshots_directory(), snapshot.id());
  // One that was removed meanwhile may have lost its chunks to a collection.
  if (!findings.empty() && access(path.c_str(), F_OK) == 0) {
    for (VerifyFinding& finding : findings) {
      Find(std::move(finding.snapshot_id), std::move(finding.path), std::move(finding.status));
    }
  }
  AddProgress([](VerifyProgress& done) { ++done.snapshots_done; });
}

absl::StatusOr<VerifyReport> Verification::Run() {
  CheckSmallFiles();
  // Before the packs, so that the chunks of every snapshot in the list are in them.
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store_));
  for (const SnapshotList* list : {&roots.pending, &roots.checked}) {
    for (const DamagedSnapshot& damaged : list->damaged) Find("", "", damaged.status);
  }
  for (const MissingSnapshot& missing : roots.checked.missing) {
    Find(missing.id, "", DescribeLoss(missing));
  }
  CheckNotes();
  KERF_RETURN_IF_ERROR(index_.Refresh());
  for (const DamagedPack& damaged : index_.damaged()) {
    FindDamage(damaged.path, Annotate(damaged.status, "a pack is damaged"));
  }
  const std::vector<std::shared_ptr<const KnownPack>> packs = index_.packs();
  AddProgress([&](VerifyProgress& done) {
    done.packs_total = packs.size();
    done.snapshots_total = roots.checked.snapshots.size();
    for (const auto& pack : packs) {
      for (const PackBlock& block : pack->footer.blocks) {
        if (options_.read_data) done.bytes_total += block.raw_bytes;
      }
    }
  });
  // The packs first: what is damaged in them is then named with the files that it is part of.
  ForEachInParallel(packs.size(), options_.thread_count,
                    [&](std::size_t index) { CheckPack(*packs[index]); });
  ForgetDamageWithSoundCopies(packs);
  ForEachInParallel(roots.checked.snapshots.size(), options_.thread_count,
                    [&](std::size_t index) { CheckSnapshot(roots.checked.snapshots[index]); });
  return std::move(report_);
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyStore(const Store& store, const VerifyOptions& options) {
  return Verification(store, options).Run();
}

}  // namespace kerf::agent
