// Backups into stores of which no list is made.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "client/agent/backup/engine.h"
#include "client/agent/backup/parent_tree.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/fs/testing/settle.h"
#include "client/store/format/file_hook.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/snapshots/roots.h"
#include "client/store/testing/hollow_packs.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

// Does something when a snapshot is about to become pending.
class BeforePending final : public FileHook {
 public:
  explicit BeforePending(std::function<void()> act) : act_(std::move(act)) {
    SetFileHookForTest(this);
  }
  ~BeforePending() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    const bool publishes = operation.kind == FileOperation::Kind::kRename &&
                           operation.to.find("/pending/") != std::string_view::npos;
    if (publishes && !has_acted_) {
      has_acted_ = true;
      act_();
    }
    return absl::OkStatus();
  }

 private:
  const std::function<void()> act_;
  bool has_acted_ = false;
};

class ByPlaceBackupTest : public ::testing::Test {
 protected:
  ByPlaceBackupTest() {
    std::filesystem::create_directory(folder_.path() + "/files");
    for (int number = 0; number < 20; ++number) {
      // Of three chunks.
      std::string content;
      for (char part = 'a'; part < 'd'; ++part) content += Cat(number, std::string(4094, part));
      WriteTestFile(FileOf(number), content);
    }
  }

  std::string FileOf(int number) const { return Cat(folder_.path(), "/files/", number); }

  // A server that knows what index_ does.
  absl::StatusOr<BackupResult> Backup() {
    CuttingServer script;
    script.lie = [this](const v1::UploadFrame&, v1::UploadResponse& response) {
      for (v1::UploadAnswer& answer : *response.mutable_answers()) {
        if (!answer.has_chunks()) continue;
        for (v1::Chunk& chunk : *answer.mutable_chunks()->mutable_chunks()) {
          const auto known = index_.find(chunk.digest());
          if (known == index_.end()) continue;
          chunk.set_verdict(v1::VERDICT_DUPLICATE);
          chunk.set_locator(known->second);
        }
      }
    };
    const FakeServer server(script);
    BackupOptions options;
    options.paths = {folder_.path() + "/files"};
    options.servers = {server.address()};
    options.host = "host";
    options.known.memory_bytes = memory_bytes_;
    if (can_ask_) {
      options.known.look_up = [this](std::uint64_t, std::span<const Digest> digests,
                                     std::uint64_t& index_epoch, client::CallCancellation&) {
        return LookUp(digests, index_epoch);
      };
    }
    options.known.on_look_up_failed = [this](const absl::Status&) { ++failed_look_up_count_; };
    BackupProgress progress;
    return RunBackup(*store_, options, progress);
  }

  absl::StatusOr<std::vector<IndexAnswer>> LookUp(std::span<const Digest> digests,
                                                  std::uint64_t& index_epoch) {
    ++look_up_count_;
    index_epoch = index_epoch_;
    if (!look_up_status_.ok()) return look_up_status_;
    std::vector<IndexAnswer> answers;
    for (const Digest& digest : digests) {
      const auto known = index_.find(TextOf(digest));
      IndexAnswer& answer = answers.emplace_back();
      if (known == index_.end()) continue;
      answer = {IndexVerdict::kDuplicate, 0, known->second};
    }
    return answers;
  }

  static std::string TextOf(const Digest& digest) {
    return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
  }

  // As agents would have told it all that the store has.
  void FillIndex() {
    ChunkIndex packs(store_->packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& pack : packs.packs()) {
      for (std::uint32_t at = 0; at < pack->footer.chunks.size(); ++at) {
        index_[TextOf(pack->footer.chunks[at].digest)] = EncodeLocator(pack->id, at);
      }
    }
  }

  // The pack that has a file's first chunk.
  std::string PackOf(int number) {
    ChunkIndex packs(store_->packs_directory());
    EXPECT_TRUE(packs.Refresh().ok());
    const auto place = packs.Locate(RefOf(ReadTestFile(FileOf(number)).substr(0, 4096)).digest);
    return place.has_value() ? packs.PackPath(place->pack->id) : "";
  }

  // As a collection does it: all chunks of all packs are in new ones before these go.
  void MovePacks() {
    ChunkIndex packs(store_->packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    ChunkReader reader(packs, {});
    PackWriterOptions options;
    options.packs_directory = store_->packs_directory();
    options.temporary_directory = store_->temporary_directory();
    options.on_sealed = [](const SealedPack&) {};
    PackWriter writer(std::move(options));
    for (const auto& pack : packs.packs()) {
      for (const PackChunk& chunk : pack->footer.chunks) {
        const auto bytes = reader.Read({chunk.digest, chunk.length_bytes});
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_TRUE(writer.Add(chunk.digest, bytes->bytes()).ok());
      }
    }
    ASSERT_TRUE(writer.Flush().ok());
    for (const auto& pack : packs.packs()) std::filesystem::remove(packs.PackPath(pack->id));
  }

  // Every chunk of every snapshot is read.
  absl::Status RestoreAll() {
    ChunkIndex packs(store_->packs_directory());
    KERF_RETURN_IF_ERROR(packs.Refresh());
    ChunkReader reader(packs, {});
    const SnapshotList list = *store_->ListSnapshots();
    for (const store::v1::Snapshot& snapshot : list.snapshots) {
      absl::Status status;
      KERF_RETURN_IF_ERROR(VisitSnapshot(
          snapshot, 32, reader,
          [&](const ChunkRef& chunk) {
            if (status.ok()) status = reader.Read(chunk).status();
          },
          EntryVisitor()));
      KERF_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
  // By the digest's bytes.
  std::map<std::string, std::string> index_;
  std::uint64_t memory_bytes_ = 0;
  bool can_ask_ = true;
  std::uint64_t index_epoch_ = 1;
  absl::Status look_up_status_;
  std::atomic<int> look_up_count_ = 0;
  int failed_look_up_count_ = 0;
};

TEST_F(ByPlaceBackupTest, WhatHasNotChangedIsTakenOverAndAskedForAtOnce) {
  testing::LetFilesSettle();
  const auto first = Backup();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->went_by_place);
  EXPECT_EQ(first->chunks.stale_chunks, 0u);
  FillIndex();
  look_up_count_ = 0;
  const auto second = Backup();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->snapshot.parent(), first->snapshot.id());
  EXPECT_EQ(second->snapshot.stats().unchanged_file_count(), 20u);
  EXPECT_EQ(second->chunks.new_chunks, second->chunks.new_metadata_chunks);
  EXPECT_EQ(second->chunks.stale_chunks, 0u);
  // Of the metadata once, and of all files once.
  EXPECT_EQ(look_up_count_, 2);
  EXPECT_TRUE(RestoreAll().ok());
}

// However long their names are: what is read ahead of the snapshot before is bounded.
TEST_F(ByPlaceBackupTest, FilesAmongMuchElseAreAskedForBitByBit) {
  // Between the first file and the others, more than is read ahead; each of 4 KB.
  const std::string target(4000, 'x');
  const auto count = static_cast<int>(ParentTree::kMaxAheadBytes / target.size()) + 1;
  ASSERT_LT(count, static_cast<int>(ParentTree::kMaxAheadEntries));
  for (int number = 0; number < count; ++number) {
    std::filesystem::create_symlink(target, Cat(FileOf(0), "-", number));
  }
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  look_up_count_ = 0;
  const auto second = Backup();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->snapshot.stats().unchanged_file_count(), 20u);
  // Of the metadata once, and of the files twice.
  EXPECT_EQ(look_up_count_, 3);
}

// What is left of it in the index makes no difference.
TEST_F(ByPlaceBackupTest, AFileWhosePackIsGoneIsReadAndStoredAgain) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  std::filesystem::remove(PackOf(7));
  EXPECT_FALSE(RestoreAll().ok());
  const auto again = Backup();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_LT(again->snapshot.stats().unchanged_file_count(), 20u);
  EXPECT_GT(again->chunks.stale_chunks, 0u);
  // Also of the one that had lost it.
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

TEST_F(ByPlaceBackupTest, AnIndexThatNamesOtherPlacesIsNotBelieved) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  // Each chunk where another one lies.
  std::string last = index_.rbegin()->second;
  for (auto& [digest, locator] : index_) std::swap(locator, last);
  const auto again = Backup();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->snapshot.stats().unchanged_file_count(), 0u);
  EXPECT_GE(again->chunks.stale_chunks, 60u);
  EXPECT_TRUE(RestoreAll().ok());
}

TEST_F(ByPlaceBackupTest, WhereNobodyCanBeAskedEachFileIsRead) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  look_up_status_ = absl::PermissionDeniedError("not for you");
  look_up_count_ = 0;
  const auto again = Backup();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->snapshot.stats().unchanged_file_count(), 0u);
  EXPECT_EQ(again->chunks.stale_chunks, 0u);
  EXPECT_EQ(look_up_count_, 1);
  EXPECT_EQ(failed_look_up_count_, 1);
  can_ask_ = false;
  EXPECT_TRUE(Backup().ok());
  EXPECT_TRUE(RestoreAll().ok());
}

// What a collection has taken since it was seen is stored again in another round.
TEST_F(ByPlaceBackupTest, ABackupThatACollectionOvertakesIsWhole) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  {
    const BeforePending collection([this] {
      EXPECT_TRUE(store_->WriteEpoch(3).ok());
      std::filesystem::remove(PackOf(7));
    });
    const auto again = Backup();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->snapshot.store_epoch(), 3u);
    EXPECT_GT(again->chunks.new_chunks, 0u);
  }
  EXPECT_TRUE(store_->ListPending()->snapshots.empty());
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

// Neither files nor what describes them is where the index said: nothing is lost.
TEST_F(ByPlaceBackupTest, WhatACollectionHasMovedMeanwhileIsFound) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  {
    const BeforePending collection([this] {
      MovePacks();
      EXPECT_TRUE(store_->WriteEpoch(3).ok());
    });
    const auto again = Backup();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->snapshot.store_epoch(), 1u) << "it went round again";
    EXPECT_EQ(again->chunks.stale_chunks, 0u);
  }
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

// Of the snapshot's own metadata, which the one before has, too.
TEST_F(ByPlaceBackupTest, MetadataThatACollectionHasTakenIsStoredAgain) {
  testing::LetFilesSettle();
  const auto first = Backup();
  ASSERT_TRUE(first.ok()) << first.status();
  FillIndex();
  {
    const BeforePending collection([&] {
      ChunkIndex packs(store_->packs_directory());
      ASSERT_TRUE(packs.Refresh().ok());
      for (const ChunkRef& chunk : MetadataOf(first->snapshot, 32)) {
        std::filesystem::remove(packs.PackPath(packs.Locate(chunk.digest)->pack->id));
      }
      EXPECT_TRUE(store_->WriteEpoch(3).ok());
    });
    const auto again = Backup();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->snapshot.store_epoch(), 3u);
    EXPECT_EQ(again->snapshot.stats().unchanged_file_count(), 0u);
  }
  EXPECT_TRUE(store_->ListPending()->snapshots.empty()) << "nobody will ever confirm it";
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

// The same, seen by the index's epoch alone (COL-81): in one that a look-up has told.
TEST_F(ByPlaceBackupTest, AnEpochThatALookUpTellsIsReasonToLookAtAllChunks) {
  testing::LetFilesSettle();
  ASSERT_TRUE(Backup().ok());
  FillIndex();
  index_epoch_ = 2;
  const BeforePending collection([this] { std::filesystem::remove(PackOf(7)); });
  const auto again = Backup();
  ASSERT_TRUE(again.ok()) << again.status();
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

// The list of a store that grows beside the backup, and past what it may take.
TEST_F(ByPlaceBackupTest, AStoreThatOutgrowsItsListMeanwhileIsLookedThroughAllTheSame) {
  // Room for 20 chunks.
  memory_bytes_ = 20 * 2 * kIndexBytesPerChunk;
  const BeforePending collection([this] { EXPECT_TRUE(store_->WriteEpoch(3).ok()); });
  const auto first = Backup();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->went_by_place);
  FillIndex();
  const auto second = Backup();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->went_by_place);
  EXPECT_TRUE(RestoreAll().ok());
}

// Nor does anybody take what does not fit into the list for whole.
TEST_F(ByPlaceBackupTest, WhatIsGoneIsMissedInAStoreThatOutgrowsItsList) {
  // Room for 200 chunks.
  memory_bytes_ = 200 * 2 * kIndexBytesPerChunk;
  const BeforePending collection([this] {
    PackId hollow;
    hollow.bytes[0] = 7;
    WriteHollowPack(store_->packs_directory(), hollow, 0, 1000);
    std::filesystem::remove(PackOf(7));
    EXPECT_TRUE(store_->WriteEpoch(3).ok());
  });
  const auto first = Backup();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->snapshot.store_epoch(), 3u);
  EXPECT_TRUE(first->went_by_place);
  const absl::Status restored = RestoreAll();
  EXPECT_TRUE(restored.ok()) << restored;
}

}  // namespace
}  // namespace kerf::agent
