// A seeded world of agents, collections, repairs and an index that share one real store. One
// thread: agents take one step at a time, between any two steps of a collection and within its
// calls to the index.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/placed_chunks.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {

class SimWorld;

enum class SimVerdict { kNew, kDuplicate, kUnverified };

// The server's index by its contract (server/index/index.h), commits of an epoch gone by refused.
class SimIndex final : public CollectionIndex {
 public:
  struct Entry {
    std::string locator;
    std::uint64_t epoch = 0;
    // Until it is committed anew.
    bool has_wrong_length = false;
  };
  struct State {
    std::map<Digest, Entry> entries;
    std::uint64_t epoch = 0;
    // Since the epoch was raised.
    std::uint64_t removed_count = 0;
  };

  explicit SimIndex(SimWorld& world) : world_(world) {}

  absl::StatusOr<std::uint64_t> ReadEpoch() override;
  absl::StatusOr<std::uint64_t> AdvanceEpoch(std::uint64_t epoch,
                                             std::uint64_t min_before) override;
  absl::StatusOr<ForgottenChunks> Forget(std::span<const StoredChunk> chunks) override;
  absl::StatusOr<ForgottenChunks> ForgetOlder(std::uint64_t epoch) override;
  absl::Status Commit(std::uint64_t epoch, std::span<const StoredChunk> chunks) override;
  absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) override;

  SimVerdict Lookup(std::uint64_t session_epoch, const Digest& digest) const;
  // False if it is refused.
  bool CommitOne(std::uint64_t session_epoch, const Digest& digest, const std::string& locator,
                 bool replace);

  // True if it was there. An agent's report of a stale answer, too.
  bool Remove(const Digest& digest, const std::string& locator);

  State state;
  // From now on an answer may be lost: what was asked is done, and the asker sees Unavailable.
  bool may_lose_answers = false;
  bool lost_answer = false;

 private:
  absl::Status Answer();

  SimWorld& world_;
};

// Backs up made-up chunks, one step at a time.
class SimAgent {
 public:
  SimAgent(SimWorld& world, std::size_t number) : world_(world), number_(number) {}

  void Step();
  // Forgets everything that it knew. What it has sent may still arrive.
  void Crash();
  // The answer to a commit that came too late.
  void OnRefused(const Digest& digest);
  // Whether it has no list of the store's chunks: of a world where agents go by place all but the
  // last one, which is as kerf 0.1.0.
  bool goes_by_place() const;
  // What it is about to make a snapshot of.
  FileChunks files_at_work() const { return phase_ == Phase::kIdle ? FileChunks() : files_; }

 private:
  enum class Phase { kIdle, kUpload, kPublish, kCheck, kConfirm };

  void Begin();
  void LookAtStore(const CollectionGuard& seen);
  std::optional<ChunkPlace> FindPlace(const ChunkRef& chunk) const;
  void UploadOne();
  void Keep(const std::string& content);
  void Publish();
  void Check();
  void Confirm();

  SimWorld& world_;
  const std::size_t number_;
  Phase phase_ = Phase::kIdle;
  // Others act while it checks its snapshot.
  bool is_checking_ = false;
  // Believes DUPLICATE without looking into the store.
  bool trusting_ = false;
  CollectionGuard guard_;
  std::uint64_t session_epoch_ = 0;
  // Of agents with a list of the store's chunks.
  std::unique_ptr<ChunkIndex> index_;
  DigestSet distrusted_;
  // Of those that go by place, and what of collections they have seen before.
  std::unique_ptr<PlacedChunks> placed_;
  CollectionGuard seen_;
  std::vector<std::string> to_upload_;
  FileChunks files_;
  store::v1::Snapshot snapshot_;
};

class SimWorld {
 public:
  struct Message {
    std::size_t agent = 0;
    // Of the agent's life: it changes when it crashes.
    std::uint64_t life = 0;
    std::uint64_t session_epoch = 0;
    Digest digest;
    std::string locator;
    bool replace = false;
  };
  // What somebody was told, or is about to take back.
  struct Promise {
    enum class Kind { kSnapshot, kPin };
    Kind kind = Kind::kSnapshot;
    std::string id;
    bool holds = false;
  };
  // What a machine finds when it comes up again.
  struct Past {
    // The store lies, or will lie, in it; empty: in one of its own.
    std::string folder;
    SimIndex::State index;
    std::deque<Message> network;
    std::map<Digest, std::string> contents;
    std::map<std::string, FileChunks> files_of;
    // Of a store that is made anew, for its packs.
    unsigned parity_percent = 0;
    // How agents know what the store has: docs/adr/0026-chunks-by-place.md.
    bool agents_go_by_place = false;
  };

  explicit SimWorld(std::uint64_t seed) : SimWorld(seed, Past()) {}
  SimWorld(std::uint64_t seed, Past past);

  // Runs `step_count` steps, then lets everything come to an end. OK, or what was lost.
  absl::Status Run(int step_count);
  // Behind a run: a comparison finds what is wrong, and a rebuilt index has nothing of it.
  absl::Status CheckDamageIsFoundAndMended();
  // What parity there is can be used.
  absl::Status CheckParity();
  // In a store that has had parity from its beginning.
  absl::Status CheckSnapshotsHaveParity();
  // Lets one agent back up until its snapshot is checked.
  absl::Status BackUp();
  // The index may be set back to what it is now.
  void KeepBackup();
  // The run fails if the index is believed in what is not so.
  void NoteIndex();
  // Some steps of agents and of the network; called from within a collection.
  void Interleave();
  // The same, and now and then a collection.
  absl::Status InterleaveAll();
  // Now and then a whole collection: between two looks of an agent that checks its snapshot.
  void InterleaveCheck();

  Random random;
  const TemporaryFolder own_folder{TemporaryFolder::Place::kMemory};
  TestStore test;
  SimIndex index;
  std::deque<Message> network;
  std::map<Digest, std::string> contents;
  std::map<std::string, FileChunks> files_of;
  std::vector<std::uint64_t> lives;
  // Since the store is there; 0 as well if that is not known.
  const unsigned parity_percent;
  const bool agents_go_by_place;
  // In their order: the last one of an id counts.
  std::vector<Promise> promises;
  int confirmed_count = 0;
  int collection_count = 0;
  int rebuild_count = 0;
  int check_count = 0;
  int set_back_count = 0;
  int crashed_collection_count = 0;
  std::uint64_t merged_pack_count = 0;
  int repaired_count = 0;
  int refused_count = 0;
  int distrusted_count = 0;
  int reported_count = 0;
  int mended_pack_count = 0;
  int undeleted_count = 0;
  int refused_undelete_count = 0;
  // Pinned snapshots that somebody wanted to forget.
  int kept_pin_count = 0;
  // Collections that went on with the room that they had made.
  int short_collection_count = 0;
  int refused_write_count = 0;
  int refused_parity_count = 0;
  // That nothing but parity could give back, or of which that was damaged itself.
  int mended_with_parity_count = 0;
  // Of agents that go by place: chunks that were not where the index said, and those that a
  // collection was about to delete there.
  int misplaced_count = 0;
  int condemned_place_count = 0;
  // Collections that began while somebody looked for a snapshot's chunks.
  int collection_in_check_count = 0;
  // Whether the disk may be full for collections. Not where another FileHook looks on.
  bool may_fill_disk = false;

  std::string RandomContent();

 private:
  void Step(bool collections);
  void Deliver();
  void ForgetSnapshot();
  void BringBackSnapshot();
  void PinOrUnpin();
  // A pack rots of which nobody misses anything: each of its chunks has another copy, or nobody
  // references it. The store is mended while all others go on.
  absl::Status Repair();
  std::optional<std::string> RotOnePack();
  // Behind a collection that nothing has disturbed.
  absl::Status CheckParityAtEnd();
  // Whether each chunk of the pack at `path` has its digest.
  bool IsSound(const std::string& path);
  // All chunks that snapshots need, or will when their agents are done.
  absl::StatusOr<DigestSet> NeededChunks();
  // A collector of kerf 0.1.0 leaves forgotten snapshots where they are, and takes their chunks.
  void Write(const std::string& path, const std::string& bytes);
  std::map<std::string, std::string> ReadForgotten();
  void PutForgottenBack(const std::map<std::string, std::string>& files);
  // One agent, while all others stand still.
  void BackUpSwiftly();
  absl::Status Collect(bool may_crash);
  // Makes the index again from the store, as `kerf index rebuild` does.
  absl::Status Rebuild(bool may_crash);
  // Compares the index with the store, as `kerf index check` does, while all others go on. Nothing
  // that is sound may be called damaged.
  absl::Status CompareIndex();
  // For a run that holds the collector's lock: what others do between its steps, and where it
  // crashes.
  std::function<absl::Status(CollectionStep)> StepsOf(bool may_crash, bool& crashed);
  // What such a run may end with, and what must be true then.
  absl::Status CheckRun(const absl::Status& status, bool crashed, std::string_view what);
  // Everything that the index, or anything that it may be set back to, would call DUPLICATE to a
  // session that is opened now is there.
  absl::Status CheckIndex();
  // Without crashes and set-backs a collection leaves an index that is believed, and names nothing
  // that is gone.
  absl::Status CheckCalmCollection();
  // Nor does a rebuilt one lack anything.
  absl::Status CheckCalmRebuild();

  std::vector<std::unique_ptr<SimAgent>> agents_;
  std::vector<SimIndex::State> backups_;
  // Of each, the last epoch whose sessions believe anything in it.
  std::vector<std::uint64_t> last_epochs_;
  std::unique_ptr<ChunkIndex> packs_;
  int pin_count_ = 0;
  // Nobody else does anything while a collection runs.
  bool is_calm_ = false;
  // The index is believed in what is not so, until it is rebuilt.
  bool is_damaged_ = false;
  // The index comes from a world before this one, and was perhaps set back there.
  bool has_past_ = false;
  absl::Status failure_;
};

}  // namespace kerf::agent
