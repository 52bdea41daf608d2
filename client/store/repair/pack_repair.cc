#include "client/store/repair/pack_repair.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/parallel.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/read_pieces.h"
#include "client/store/packs/block.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_check.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/parity/mender.h"
#include "client/store/parity/parity_file.h"
#include "client/store/parity/parity_maker.h"
#include "client/store/parity/parity_setting.h"
#include "client/store/repair/pack_mend.h"
#include "client/store/repair/pack_salvage.h"
#include "client/store/snapshots/pending.h"
#include "client/store/snapshots/quarantine.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

// A pack without its footer is read whole; no writer makes one of this size.
constexpr std::uint64_t kMaxFooterlessBytes = std::uint64_t{1} << 30;
// Metadata that was found names further chunks to look for.
constexpr int kMaxSearches = 8;

// The repair tells no server: the store's epoch passes its index.
class NoIndex final : public CollectionIndex {
 public:
  absl::StatusOr<std::uint64_t> ReadEpoch() override { return None(); }
  absl::StatusOr<std::uint64_t> AdvanceEpoch(std::uint64_t, std::uint64_t) override {
    return None();
  }
  absl::StatusOr<ForgottenChunks> Forget(std::span<const StoredChunk>) override { return None(); }
  absl::StatusOr<ForgottenChunks> ForgetOlder(std::uint64_t) override { return None(); }
  absl::Status Commit(std::uint64_t, std::span<const StoredChunk>) override { return None(); }
  absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>&) override {
    return None();
  }

 private:
  static absl::Status None() { return absl::InternalError("a repair asks no server"); }
};

class PackRepair {
 public:
  PackRepair(const Store& store, const PackRepairOptions& options, PackRepairReport& report)
      : store_(store),
        options_(options),
        index_(store.packs_directory(), SeenPacks::kAreDurable),
        round_(store, no_index_, {}, &notes_),
        report_(report) {
    index_.EndWhen(options_.is_cancelled);
  }

  absl::Status Run();

 private:
  using Chunks = absl::flat_hash_set<Digest, DigestHash>;
  // Of a sound pack.
  struct BadParity {
    PackId id;
    std::string path;
    absl::Status damage;
  };
  // A damaged pack.
  struct Patient {
    RepairedPack report;
    // Null if the footer is lost.
    std::shared_ptr<const KnownPack> pack;
    std::vector<bool> is_sound;
    // Everything that is wrong stays so.
    bool has_rotted = true;
    PackId id;
  };

  void Examine(const std::shared_ptr<const KnownPack>& pack, absl::Status damage);
  void ExamineUnreadable(const DamagedPack& damaged);
  void ExamineBlock(Patient& patient, int fd, std::uint32_t block_index,
                    std::span<const std::uint32_t> chunks) const;
  absl::Status ExamineAll();
  void ExamineParity(const PackId& id, const std::string& path);
  absl::Status MendWithParity();
  absl::Status MakeParityAnew();
  absl::Status MakeParityOf(const PackId& id, unsigned percent);
  void MakeParityAnew(const BadParity& bad, const absl::StatusOr<unsigned>& percent);
  void ShowProgress();
  bool IsCancelled() const { return options_.is_cancelled && options_.is_cancelled(); }
  absl::Status SaveSound(PackWriter& writer);
  absl::StatusOr<std::uint64_t> SearchFooterless(PackWriter& writer);
  absl::StatusOr<ChunkOrder> WantedChunks();
  void CountLost();
  absl::Status MoveAway();
  absl::Status Save();
  absl::Status Step(CollectionStep step) const {
    return options_.on_step ? options_.on_step(step) : absl::OkStatus();
  }

  const Store& store_;
  const PackRepairOptions& options_;
  ChunkIndex index_;
  NoIndex no_index_;
  std::vector<std::string> notes_;
  EpochRound round_;
  std::mutex mutex_;
  std::vector<Patient> patients_;
  PackRepairReport& report_;
  // Chunks with a copy in a pack without damage, or in a new one.
  Chunks safe_;
  // In the order of report_.parity.
  std::vector<BadParity> bad_parity_;
  std::uint64_t done_count_ = 0;
  std::uint64_t total_count_ = 0;
};

// As much of a block as there is: all of it with the pack's parity, else what lies before the
// damage.
std::vector<std::uint8_t> ReadAnyhow(int fd, const std::string& path, const PackId& id,
                                     const PackBlock& block, absl::Status& failure) {
  absl::StatusOr<std::vector<std::uint8_t>> raw = ReadBlockWithParity(path, id, block);
  if (raw.ok()) return *std::move(raw);
  std::vector<std::uint8_t> stored(block.stored_bytes);
  failure = ReadPieces(fd, stored, block.offset, path);
  return DecodePrefix(block, std::move(stored));
}

void PackRepair::ExamineBlock(Patient& patient, int fd, std::uint32_t block_index,
                              std::span<const std::uint32_t> chunks) const {
  const PackFooter& footer = patient.pack->footer;
  const PackBlock& block = footer.blocks[block_index];
  const std::string& path = patient.report.path;
  const auto all_are_sound = [&](std::span<const std::uint8_t> raw) {
    bool all_are = true;
    for (const std::uint32_t index : chunks) {
      const PackChunk& chunk = footer.chunks[index];
      const auto bytes = raw.subspan(chunk.offset_in_block, chunk.length_bytes);
      patient.is_sound[index] = Fingerprint(footer.digest_algorithm, bytes) == chunk.digest;
      all_are = all_are && patient.is_sound[index];
    }
    return all_are;
  };
  const absl::StatusOr<std::vector<std::uint8_t>> block_bytes = ReadBlock(fd, path, block);
  if (block_bytes.ok() && all_are_sound(*block_bytes)) return;
  if (patient.report.damage.ok()) {
    patient.report.damage =
        block_bytes.ok()
            ? absl::DataLossError(Cat(path, ": a chunk in block ", block_index, " is damaged"))
            : block_bytes.status();
  }
  absl::Status failure;
  all_are_sound(ReadAnyhow(fd, path, patient.id, block, failure));
  if (!failure.ok() && !absl::IsDataLoss(failure)) patient.has_rotted = false;
}

void PackRepair::Examine(const std::shared_ptr<const KnownPack>& pack, absl::Status damage) {
  Patient patient;
  patient.pack = pack;
  patient.id = pack->id;
  patient.report.path = index_.PackPath(pack->id);
  patient.report.damage = std::move(damage);
  const std::vector<PackChunk>& chunks = pack->footer.chunks;
  patient.is_sound.resize(chunks.size());
  if (patient.report.damage.ok() && !pack->flaw.empty()) {
    patient.report.damage = absl::DataLossError(Cat(patient.report.path, ": ", pack->flaw));
  }
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(patient.report.path);
  if (fd.ok()) {
    DropFromPageCache(fd->get());
    std::vector<std::vector<std::uint32_t>> of_block(pack->footer.blocks.size());
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      of_block[chunks[index].block_index].push_back(index);
    }
    for (std::uint32_t block_index = 0; block_index < of_block.size(); ++block_index) {
      ExamineBlock(patient, fd->get(), block_index, of_block[block_index]);
    }
  } else {
    patient.report.damage = fd.status();
    patient.has_rotted = absl::IsDataLoss(fd.status());
  }
  if (patient.report.damage.ok()) ExamineParity(pack->id, patient.report.path);
  if (fd.ok()) DropFromPageCache(fd->get());
  const std::lock_guard lock(mutex_);
  if (patient.report.damage.ok()) {
    for (const PackChunk& chunk : chunks) safe_.insert(chunk.digest);
  } else {
    patients_.push_back(std::move(patient));
  }
}

// Of a sound pack.
void PackRepair::ExamineParity(const PackId& id, const std::string& path) {
  const std::string parity_path = ParityPathOf(path);
  const absl::StatusOr<ParityFile> parity = ParityFile::Open(parity_path, id);
  if (absl::IsNotFound(parity.status())) return;
  absl::Status damage = parity.status();
  if (damage.ok()) damage = parity->Check();
  if (damage.ok()) damage = parity->CheckFits(path);
  if (damage.ok()) return;
  const std::lock_guard lock(mutex_);
  bad_parity_.push_back({id, parity_path, std::move(damage)});
}

absl::Status PackRepair::MakeParityOf(const PackId& id, unsigned percent) {
  const std::string path = index_.PackPath(id);
  KERF_ASSIGN_OR_RETURN(const PackSums sums, SumSoundPack(path, id));
  return MakeParity(path, id, sums, percent, options_.is_cancelled);
}

// The pack was sound. It is looked at once more, for that is what parity is made of.
void PackRepair::MakeParityAnew(const BadParity& bad, const absl::StatusOr<unsigned>& percent) {
  RepairedParity parity;
  parity.path = bad.path;
  parity.damage = bad.damage;
  parity.failure = percent.status();
  // What a newer kerf made is not ours to replace.
  if (absl::IsFailedPrecondition(parity.damage)) {
    parity.failure = absl::FailedPreconditionError("it stays, for a newer kerf made it");
  }
  parity.is_removed = parity.failure.ok() && *percent == 0;
  if (parity.failure.ok() && !options_.dry_run) {
    parity.failure = *percent > 0 ? MakeParityOf(bad.id, *percent)
                                  : MoveToQuarantine(store_.directory(), parity.path).status();
  }
  // It is as it was.
  if (absl::IsCancelled(parity.failure)) return;
  const std::lock_guard lock(mutex_);
  report_.parity.push_back(std::move(parity));
}

absl::Status PackRepair::MakeParityAnew() {
  const absl::StatusOr<unsigned> percent = ReadParityPercent(store_.directory());
  total_count_ += bad_parity_.size();
  ForEachInParallel(bad_parity_.size(), options_.thread_count, [&](std::size_t index) {
    if (IsCancelled()) return;
    MakeParityAnew(bad_parity_[index], percent);
    ShowProgress();
  });
  std::sort(report_.parity.begin(), report_.parity.end(),
            [](const RepairedParity& a, const RepairedParity& b) { return a.path < b.path; });
  return IsCancelled() ? absl::CancelledError("the repair was interrupted") : absl::OkStatus();
}

void PackRepair::ShowProgress() {
  const std::lock_guard lock(mutex_);
  ++done_count_;
  if (options_.on_progress) options_.on_progress(done_count_, total_count_);
}

// Those that it mends are patients no more.
absl::Status PackRepair::MendWithParity() {
  std::vector<Patient> others;
  for (Patient& patient : patients_) {
    if (IsCancelled()) return absl::CancelledError("the repair was interrupted");
    RepairedPack& report = patient.report;
    absl::Status status;
    if (options_.dry_run) {
      status = absl::IsFailedPrecondition(report.damage) ? report.damage
                                                         : CheckMendable(report.path, patient.id);
    } else {
      absl::StatusOr<std::string> mended = MendPack(store_.directory(), report.path, patient.id);
      status = mended.status();
      if (mended.ok()) report.quarantine_path = *std::move(mended);
    }
    // Without room now there would be none for new packs either.
    if (absl::IsResourceExhausted(status)) return status;
    report.is_mended = status.ok();
    if (!status.ok()) {
      if (!absl::IsNotFound(status)) report.parity_failure = status;
      // Another time, or on a machine with the library, it may be mended: it must be there then.
      if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) patient.has_rotted = false;
      others.push_back(std::move(patient));
      continue;
    }
    if (patient.pack != nullptr) {
      for (const PackChunk& chunk : patient.pack->footer.chunks) safe_.insert(chunk.digest);
    }
    if (!options_.dry_run) ExamineParity(patient.id, report.path);
    report_.packs.push_back(std::move(report));
  }
  patients_ = std::move(others);
  return absl::OkStatus();
}

void PackRepair::ExamineUnreadable(const DamagedPack& damaged) {
  const std::size_t name = damaged.path.rfind('/') + 1;
  const std::optional<PackId> id =
      ParsePackId(damaged.path.substr(name, damaged.path.rfind('.') - name));
  absl::StatusOr<KnownPack> pack = ReadFooterAnyway(damaged.path, *id);
  // Of a newer kerf: its footer means something else.
  if (pack.ok() && absl::IsDataLoss(damaged.status)) {
    return Examine(std::make_shared<const KnownPack>(*std::move(pack)), damaged.status);
  }
  Patient& patient = patients_.emplace_back();
  patient.id = *id;
  patient.report.path = damaged.path;
  patient.report.damage = damaged.status;
  patient.report.footer_is_lost = true;
  patient.has_rotted = absl::IsDataLoss(damaged.status);
}

absl::Status PackRepair::ExamineAll() {
  KERF_RETURN_IF_ERROR(index_.Refresh());
  const auto packs = index_.packs();
  total_count_ = packs.size();
  ForEachInParallel(packs.size(), options_.thread_count, [&](std::size_t index) {
    if (IsCancelled()) return;
    Examine(packs[index], absl::OkStatus());
    ShowProgress();
  });
  if (IsCancelled()) return absl::CancelledError("the repair was interrupted");
  for (const DamagedPack& damaged : index_.damaged()) ExamineUnreadable(damaged);
  std::sort(patients_.begin(), patients_.end(),
            [](const Patient& a, const Patient& b) { return a.report.path < b.report.path; });
  return absl::OkStatus();
}

absl::Status PackRepair::SaveSound(PackWriter& writer) {
  for (Patient& patient : patients_) {
    const bool has_sound =
        std::find(patient.is_sound.begin(), patient.is_sound.end(), true) != patient.is_sound.end();
    if (!has_sound) continue;
    if (IsCancelled()) return absl::CancelledError("the repair was interrupted");
    const PackFooter& footer = patient.pack->footer;
    KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(patient.report.path));
    std::optional<std::uint32_t> block_index;
    std::vector<std::uint8_t> raw;
    for (std::uint32_t index = 0; index < footer.chunks.size(); ++index) {
      const PackChunk& chunk = footer.chunks[index];
      if (!patient.is_sound[index] || safe_.contains(chunk.digest)) continue;
      if (block_index != chunk.block_index) {
        block_index = chunk.block_index;
        const PackBlock& block = footer.blocks[chunk.block_index];
        absl::Status unused;
        raw = ReadAnyhow(fd.get(), patient.report.path, patient.id, block, unused);
      }
      // The writer holds it against its digest once more.
      KERF_RETURN_IF_ERROR(writer.Add(
          chunk.digest, std::span(raw).subspan(chunk.offset_in_block, chunk.length_bytes)));
      safe_.insert(chunk.digest);
      ++patient.report.saved_chunk_count;
    }
  }
  return writer.Flush();
}

// Of all that snapshots need; of one whose metadata is missing as much as is there.
absl::StatusOr<ChunkOrder> PackRepair::WantedChunks() {
  KERF_RETURN_IF_ERROR(index_.Refresh());
  KERF_ASSIGN_OR_RETURN(const Roots roots, ListRoots(store_));
  ChunkReader reader(index_, ChunkReader::Options());
  ChunkOrder order;
  for (const SnapshotList* list : {&roots.checked, &roots.pending, &roots.forgotten}) {
    for (const store::v1::Snapshot& snapshot : list->snapshots) {
      order.Break();
      // What cannot be read of it is looked for itself.
      VisitSnapshot(
          snapshot, DigestSizeBytes(store_.digest_algorithm()), reader,
          [&order](const ChunkRef& chunk) { order.Add(chunk); }, EntryVisitor())
          .IgnoreError();
    }
  }
  return order;
}

absl::StatusOr<std::uint64_t> PackRepair::SearchFooterless(PackWriter& writer) {
  KERF_ASSIGN_OR_RETURN(const ChunkOrder order, WantedChunks());
  std::uint64_t found_count = 0;
  for (Patient& patient : patients_) {
    if (patient.pack != nullptr || !patient.has_rotted || order.empty()) continue;
    if (IsCancelled()) return absl::CancelledError("the repair was interrupted");
    KERF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegularFile(patient.report.path));
    struct stat info{};
    if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, patient.report.path);
    const auto size_bytes = std::min(static_cast<std::uint64_t>(info.st_size), kMaxFooterlessBytes);
    std::vector<std::uint8_t> file(size_bytes);
    ReadPieces(fd.get(), file, 0, patient.report.path).IgnoreError();
    KERF_RETURN_IF_ERROR(
        FindChunks(file, store_.digest_algorithm(), order,
                   [&](const ChunkRef& chunk, std::span<const std::uint8_t> bytes) -> absl::Status {
                     if (!safe_.insert(chunk.digest).second) return absl::OkStatus();
                     ++found_count;
                     ++patient.report.saved_chunk_count;
                     return writer.Add(chunk.digest, bytes);
                   }));
  }
  KERF_RETURN_IF_ERROR(writer.Flush());
  return found_count;
}

absl::Status PackRepair::Save() {
  PackWriterOptions writer_options;
  writer_options.packs_directory = store_.packs_directory();
  writer_options.temporary_directory = store_.temporary_directory();
  writer_options.digest_algorithm = store_.digest_algorithm();
  writer_options.thread_count = options_.thread_count;
  writer_options.on_sealed = [](const SealedPack&) {};
  writer_options.on_parity_failed = [this](const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    report_.parity_failures.push_back(status);
  };
  PackWriter writer(std::move(writer_options));
  KERF_RETURN_IF_ERROR(SaveSound(writer));
  const bool has_footerless =
      std::any_of(patients_.begin(), patients_.end(),
                  [](const Patient& patient) { return patient.pack == nullptr; });
  for (int search = 0; has_footerless && search < kMaxSearches; ++search) {
    KERF_ASSIGN_OR_RETURN(const std::uint64_t found_count, SearchFooterless(writer));
    if (found_count == 0) break;
  }
  return absl::OkStatus();
}

// As a collection does what it deletes: agents that count on these packs see the plan, or a later
// epoch, and look at the packs again. The index may name what is lost, so it is passed by: it is at
// an epoch before the store's until a collection makes it whole (docs/adr/0005).
absl::Status PackRepair::MoveAway() {
  std::vector<Patient*> moved;
  std::vector<PlannedPack> planned;
  for (Patient& patient : patients_) {
    if (patient.report.may_come_back) continue;
    moved.push_back(&patient);
    if (patient.pack == nullptr) continue;
    PlannedPack& plan = planned.emplace_back();
    plan.id = patient.pack->id;
    for (const PackChunk& chunk : patient.pack->footer.chunks) {
      plan.condemned.push_back(!safe_.contains(chunk.digest));
    }
  }
  if (moved.empty()) return absl::OkStatus();
  KERF_RETURN_IF_ERROR(round_.ReadEpochs(/*with_index=*/false));
  round_.Distrust();
  KERF_RETURN_IF_ERROR(round_.PublishPlan(std::move(planned)));
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kPlanned));
  // For an agent that reads the epoch before these packs go, and the plan when that is gone, too.
  KERF_RETURN_IF_ERROR(round_.RaiseStoreToFence());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaised));
  for (Patient* patient : moved) {
    KERF_ASSIGN_OR_RETURN(patient->report.quarantine_path,
                          MoveToQuarantine(store_.directory(), patient->report.path));
    // With what it may yet be of use for.
    const absl::Status status =
        MoveToQuarantine(store_.directory(), ParityPathOf(patient->report.path)).status();
    if (!absl::IsNotFound(status)) KERF_RETURN_IF_ERROR(status);
  }
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kDeleted));
  // For sessions of that epoch which found a chunk, before it went, in a pack that no plan can
  // name: what they told the index of it is not believed later.
  KERF_RETURN_IF_ERROR(round_.RaiseStoreAgain());
  KERF_RETURN_IF_ERROR(Step(CollectionStep::kEpochRaisedAgain));
  KERF_RETURN_IF_ERROR(round_.RemovePlan());
  return Step(CollectionStep::kPlanRemoved);
}

void PackRepair::CountLost() {
  Chunks sound = safe_;
  for (const Patient& patient : patients_) {
    for (std::size_t index = 0; index < patient.is_sound.size(); ++index) {
      if (patient.is_sound[index]) sound.insert(patient.pack->footer.chunks[index].digest);
    }
  }
  for (Patient& patient : patients_) {
    RepairedPack& report = patient.report;
    if (patient.pack != nullptr) {
      for (const PackChunk& chunk : patient.pack->footer.chunks) {
        if (!sound.contains(chunk.digest)) ++report.lost_chunk_count;
      }
    }
    report.may_come_back =
        !patient.has_rotted && (patient.pack == nullptr || report.lost_chunk_count > 0);
  }
}

absl::Status PackRepair::Run() {
  KERF_RETURN_IF_ERROR(round_.Lock());
  KERF_RETURN_IF_ERROR(ExamineAll());
  KERF_RETURN_IF_ERROR(MendWithParity());
  KERF_RETURN_IF_ERROR(MakeParityAnew());
  if (!options_.dry_run) KERF_RETURN_IF_ERROR(Save());
  CountLost();
  const absl::Status moved = options_.dry_run ? absl::OkStatus() : MoveAway();
  for (Patient& patient : patients_) {
    // Of what nothing was done before a failure the next repair tells.
    if (!moved.ok() && patient.report.quarantine_path.empty()) continue;
    report_.packs.push_back(std::move(patient.report));
  }
  KERF_RETURN_IF_ERROR(moved);
  if (options_.trees_follow) return absl::OkStatus();
  if (options_.dry_run && !report_.packs.empty()) return absl::OkStatus();
  return FindLost(store_, options_.is_cancelled, report_);
}

}  // namespace

absl::Status FindLost(const Store& store, const std::function<bool()>& is_cancelled,
                      PackRepairReport& report) {
  VerifyOptions options;
  options.references_only = true;
  options.is_cancelled = is_cancelled;
  KERF_ASSIGN_OR_RETURN(VerifyReport verified, VerifyStore(store, options));
  report.lost_count = verified.finding_count;
  report.lost = std::move(verified.findings);
  return absl::OkStatus();
}

absl::Status RepairPacks(const Store& store, const PackRepairOptions& options,
                         PackRepairReport& report) {
  return PackRepair(store, options, report).Run();
}

absl::StatusOr<PackRepairReport> RepairPacks(const Store& store, const PackRepairOptions& options) {
  PackRepairReport report;
  KERF_RETURN_IF_ERROR(RepairPacks(store, options, report));
  return report;
}

}  // namespace kerf::agent
