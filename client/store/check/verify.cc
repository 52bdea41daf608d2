#include "client/store/check/verify.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
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
#include "client/store/parity/mender.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/snapshot_list.h"

namespace kerf::agent {
namespace {

class Verification {
 public:
  Verification(const Store& store, const VerifyOptions& options)
      : store_(store),
        options_(options),
        digest_size_bytes_(DigestSizeBytes(store.digest_algorithm())),
        index_(store.packs_directory(), SeenPacks::kAsFarAsListed),
        reader_(index_, ChunkReader::Options()) {
    index_.EndWhen(options_.is_cancelled);
  }

  absl::StatusOr<VerifyReport> Run();

 private:
  void Find(std::string snapshot_id, std::string path, absl::Status status);
  void FindDamage(const std::string& pack_path, absl::Status status);
  void CheckSmallFiles();
  void CheckNotes();
  SnapshotList CheckList(absl::StatusOr<SnapshotList> list);
  absl::StatusOr<SnapshotList> ListSnapshots();
  void CheckFooters(const std::vector<std::shared_ptr<const KnownPack>>& packs);
  void ReadPacks(const std::vector<std::shared_ptr<const KnownPack>>& packs);
  void ReadPack(const KnownPack& pack);
  void CheckParity(const KnownPack& pack, const std::string& path);
  void CheckMend(const std::string& path, const PackId& id);
  void CountPacksWithoutParity(const std::vector<std::shared_ptr<const KnownPack>>& packs);
  bool EndsEarly() const;
  bool IsCancelled() const { return options_.is_cancelled && options_.is_cancelled(); }
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

  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::atomic<bool> pack_is_gone_ = false;
  bool has_unlisted_ = false;

  std::mutex mutex_;
  VerifyReport report_;
  // Of each chunk whose bytes are not what its digest says: in how many packs. Once all packs are
  // read, only those remain that no pack holds undamaged, nor its parity gives back.
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
  for (StoreFlaw& copy : FindMissingCopies(store_.directory())) {
    Find("", "", std::move(copy.status));
  }
  if (const absl::Status status = store_.ReadEpoch().status(); !status.ok()) {
    Find("", "", status);
  }
  if (const absl::Status status = ReadCollectionPlan(store_.plan_path()).status(); !status.ok()) {
    Find("", "", status);
  }
}

// The snapshots of a folder, as far as they can be found and read.
SnapshotList Verification::CheckList(absl::StatusOr<SnapshotList> list) {
  if (!list.ok()) {
    Find("", "", list.status());
    return {};
  }
  for (const DamagedSnapshot& damaged : list->damaged) Find("", "", damaged.status);
  for (const MissingSnapshot& missing : list->missing) {
    Find(missing.id, "", DescribeLoss(missing));
  }
  if (!list->manifest.ok()) Find("", "", list->manifest);
  return *std::move(list);
}

void Verification::CheckNotes() {
  const absl::StatusOr<std::vector<std::string>> ids = store_.manifest().ListIds();
  // Of kerf 0.1.0, or gone, which is a flaw of the store; or the list of snapshots has said so.
  if (!ids.ok()) return;
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

void Verification::CheckFooters(const std::vector<std::shared_ptr<const KnownPack>>& packs) {
  for (const UnlistedFolder& folder : index_.unlisted()) {
    has_unlisted_ = true;
    Find("", "", folder.status);
  }
  for (const DamagedPack& damaged : index_.damaged()) {
    FindDamage(damaged.path, Annotate(damaged.status, "a pack is damaged"));
    const std::size_t name = damaged.path.rfind('/') + 1;
    const auto id = ParsePackId(damaged.path.substr(name, damaged.path.rfind('.') - name));
    if (options_.read_data && id.has_value()) CheckMend(damaged.path, *id);
  }
  for (const auto& pack : packs) {
    const std::string path = index_.PackPath(pack->id);
    if (!pack->flaw.empty()) {
      FindDamage(path, absl::DataLossError(Cat("a pack is damaged: ", path, ": ", pack->flaw)));
    }
    if (pack->footer.digest_algorithm == store_.digest_algorithm()) continue;
    Find("", "",
         absl::DataLossError(Cat(path, ": its digest algorithm is ",
                                 DigestAlgorithmName(pack->footer.digest_algorithm),
                                 ", not that of the store")));
  }
}

void Verification::ReadPack(const KnownPack& pack) {
  const std::string path = index_.PackPath(pack.id);
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
  if (absl::IsNotFound(fd.status())) {
    // A collection has deleted it; what else it took with it is found among the snapshots.
    pack_is_gone_ = true;
    return;
  }
  if (!fd.ok()) return FindDamage(path, fd.status());
  // What is in memory may be better than what is on the disk.
  DropFromPageCache(fd->get());
  if (const absl::Status footer = ReadPackFooter(path, pack.id).status(); !footer.ok()) {
    FindDamage(path, Annotate(footer, "a pack is damaged"));
  }
  CheckBlocks(pack, fd->get(), path);
  CheckParity(pack, path);
  DropFromPageCache(fd->get());
}

void Verification::CheckParity(const KnownPack& pack, const std::string& path) {
  const absl::StatusOr<ParityFile> parity = ParityFile::Open(ParityPathOf(path), pack.id);
  if (absl::IsNotFound(parity.status())) return;
  bool is_damaged = false;
  {
    const std::lock_guard lock(mutex_);
    is_damaged = report_.damaged_packs.contains(path);
  }
  absl::Status status = parity.status();
  if (status.ok()) status = parity->Check();
  if (status.ok() && !is_damaged) status = parity->CheckFits(path);
  // A collection may have deleted the pack, and its parity with it.
  if (absl::IsNotFound(status)) return;
  if (!status.ok()) {
    Find("", "",
         Annotate(status, "parity is damaged, which `kerf repair --packs --apply` makes anew"));
  }
  if (is_damaged) CheckMend(path, pack.id);
}

void Verification::CheckMend(const std::string& path, const PackId& id) {
  const absl::Status status = CheckMendable(path, id);
  const std::lock_guard lock(mutex_);
  if (status.ok()) report_.mendable_packs.insert(path);
  if (status.ok() || absl::IsNotFound(status) || absl::IsDataLoss(status)) return;
  if (report_.parity_failure.ok()) report_.parity_failure = status;
}

void Verification::CountPacksWithoutParity(
    const std::vector<std::shared_ptr<const KnownPack>>& packs) {
  // A setting that is damaged is a flaw of the store.
  const absl::StatusOr<unsigned> percent = ReadParityPercent(store_.directory());
  if (!percent.ok() || *percent == 0) return;
  for (const auto& pack : packs) {
    if (!MayExist(ParityPath(store_.directory(), pack->id))) ++report_.packs_without_parity;
  }
}

bool Verification::EndsEarly() const {
  if (IsCancelled()) return true;
  return deadline_.has_value() && std::chrono::steady_clock::now() >= *deadline_;
}

// In order, as far as several threads allow: what is told to be read has nothing unread before it.
void Verification::ReadPacks(const std::vector<std::shared_ptr<const KnownPack>>& packs) {
  const std::chrono::milliseconds max_time = options_.subset.max_time;
  if (max_time.count() > 0) deadline_ = std::chrono::steady_clock::now() + max_time;
  std::vector<bool> is_read(packs.size());
  std::size_t read_up_to = 0;
  ForEachInParallel(packs.size(), options_.thread_count, [&](std::size_t index) {
    // One is read however little time there is: else a store would never be read to its end.
    if (index > 0 && EndsEarly()) return;
    ReadPack(*packs[index]);
    AddProgress([&](VerifyProgress& done) {
      ++done.packs_done;
      ++report_.read_pack_count;
      is_read[index] = true;
      const std::size_t before = read_up_to;
      while (read_up_to < packs.size() && is_read[read_up_to]) ++read_up_to;
      if (read_up_to > before && options_.on_read_up_to) {
        options_.on_read_up_to(packs[read_up_to - 1]->id);
      }
    });
  });
}

void Verification::ForgetDamageWithSoundCopies(
    const std::vector<std::shared_ptr<const KnownPack>>& packs) {
  if (damaged_.empty()) return;
  struct Copies {
    std::uint64_t count = 0;
    std::uint32_t length_bytes = 0;
  };
  absl::flat_hash_map<Digest, Copies, DigestHash> copies;
  for (const auto& pack : packs) {
    for (const PackChunk& chunk : pack->footer.chunks) {
      if (!damaged_.contains(chunk.digest)) continue;
      Copies& copy = copies[chunk.digest];
      ++copy.count;
      copy.length_bytes = chunk.length_bytes;
    }
  }
  for (const auto& [digest, copy] : copies) {
    // Of a subset the other ones have perhaps not been read. Where all are damaged their parity may
    // give it back.
    if ((damaged_[digest] < copy.count && options_.subset.is_everything()) ||
        reader_.Read({digest, copy.length_bytes}).ok()) {
      damaged_.erase(digest);
    }
  }
}

absl::Status Verification::CheckReference(const ChunkRef& chunk) {
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  const std::string name = DigestToHex(chunk.digest, digest_size_bytes_);
  if (!place.has_value()) {
    return absl::NotFoundError(
        Cat(has_unlisted_ ? "no pack that can be found" : "no pack", " holds its chunk ", name));
  }
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

// Before the packs, so that the chunks of every snapshot in the list are in them.
absl::StatusOr<SnapshotList> Verification::ListSnapshots() {
  if (options_.references_only) return store_.ListSnapshots();
  CheckSmallFiles();
  CheckList(store_.ListPending());
  SnapshotList checked = CheckList(store_.ListSnapshots());
  CheckNotes();
  return checked;
}

absl::StatusOr<VerifyReport> Verification::Run() {
  KERF_ASSIGN_OR_RETURN(const SnapshotList checked, ListSnapshots());
  KERF_RETURN_IF_ERROR(index_.Refresh());
  const std::vector<std::shared_ptr<const KnownPack>> packs = index_.packs();
  report_.pack_count = packs.size();
  if (!options_.references_only) CheckFooters(packs);
  std::vector<std::shared_ptr<const KnownPack>> to_read;
  if (options_.read_data) to_read = ChoosePacks(packs, options_.subset);
  AddProgress([&](VerifyProgress& done) {
    done.packs_total = options_.read_data ? to_read.size() : packs.size();
    if (!options_.read_data) done.packs_done = done.packs_total;
    done.snapshots_total = checked.snapshots.size();
    for (const auto& pack : to_read) {
      for (const PackBlock& block : pack->footer.blocks) done.bytes_total += block.raw_bytes;
    }
  });
  // The packs first: what is damaged in them is then named with the files that it is part of.
  ReadPacks(to_read);
  if (IsCancelled()) return absl::CancelledError("the verification was interrupted");
  if (pack_is_gone_) KERF_RETURN_IF_ERROR(index_.Refresh());
  ForgetDamageWithSoundCopies(packs);
  CountPacksWithoutParity(packs);
  ForEachInParallel(checked.snapshots.size(), options_.thread_count, [&](std::size_t index) {
    if (!IsCancelled()) CheckSnapshot(checked.snapshots[index]);
  });
  if (IsCancelled()) return absl::CancelledError("the verification was interrupted");
  if (options_.references_only) return std::move(report_);
  if (!options_.read_data || !options_.subset.is_everything()) {
    // Of the metadata, that was read all the same.
    for (const absl::Status& damage : reader_.stepped_over()) {
      Find("", "", Annotate(damage, "another copy was read instead of one that is damaged"));
    }
  }
  return std::move(report_);
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyStore(const Store& store, const VerifyOptions& options) {
  return Verification(store, options).Run();
}

}  // namespace kerf::agent
