// A disk that is full or fails below the RocksDB leaf: errors are clear, nothing that a failed
// commit left behind is called DUPLICATE after them, and what was committed stays.
#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/units.h"
#include "base/wait_for.h"
#include "server/index/rocksdb_index.h"
#include "server/index/testing/faulty_file_system.h"

namespace kerf {
namespace {

const RepositoryId kRepository{"photos", DigestAlgorithm::kBlake3};

std::vector<IndexEntry> Entries(std::uint64_t first, std::uint64_t count) {
  std::vector<IndexEntry> entries(count);
  for (std::uint64_t index = 0; index < count; ++index) {
    Random(first + index).Fill(entries[index].digest.bytes);
    entries[index].length_bytes = 1;
    entries[index].locator = "here";
  }
  return entries;
}

class RocksDbFaultTest : public testing::Test {
 protected:
  RocksDbFaultTest() {
    const char* root = std::getenv("TEST_TMPDIR");
    path_ = Cat(root != nullptr ? root : "/tmp", "/kerf_rocksdb_fault_test");
    std::filesystem::remove_all(path_);
    Open();
  }
  ~RocksDbFaultTest() override {
    files_->Set(Fault::kNone);
    index_.reset();
    std::filesystem::remove_all(path_);
  }

  void Open(bool sync_commits = false) {
    index_.reset();
    files_->Set(Fault::kNone);
    auto index = OpenRocksDbIndex(path_, {.block_cache_bytes = kMiB,
                                          .memtable_bytes = 256 * kKiB,
                                          .sync_commits = sync_commits,
                                          .env = env_.get()});
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = *std::move(index);
  }

  absl::StatusCode Commit(const std::vector<IndexEntry>& entries) {
    return WaitFor(index_->Commit(kRepository, 1, entries, /*replace=*/false)).code();
  }

  // How many of them are called DUPLICATE; a lookup that fails is an error, not a miss.
  std::size_t HitCount(const std::vector<IndexEntry>& entries) {
    std::size_t hit_count = 0;
    for (const IndexEntry& entry : entries) {
      LookupResult result;
      const absl::Status status = WaitFor(
          index_->Lookup(kRepository, 1, std::span(&entry.digest, 1), std::span(&result, 1)));
      EXPECT_TRUE(status.ok()) << status;
      hit_count += result.verdict == Verdict::kDuplicate ? 1 : 0;
    }
    return hit_count;
  }

  const std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(files_);
  std::string path_;
  std::unique_ptr<Index> index_;
};

// A lookup that has come between a commit's moment and its write would have seen nothing, and be
// believed.
TEST_F(RocksDbFaultTest, WhoLooksBesideAWriteIsNotBelievedBehindIt) {
  std::vector<IndexEntry> entries = Entries(1, 1);
  LookupResult beside;
  files_->BeforeLogWrites([&] {
    EXPECT_TRUE(WaitFor(index_->Lookup(kRepository, 1, std::span(&entries[0].digest, 1),
                                       std::span(&beside, 1)))
                    .ok());
  });
  EXPECT_EQ(Commit(entries), absl::StatusCode::kOk);
  files_->BeforeLogWrites(nullptr);
  ASSERT_EQ(beside.verdict, Verdict::kNew);
  ASSERT_NE(beside.absent_at, 0u);
  entries[0].locator = "there";
  entries[0].absent_at = beside.absent_at;
  EXPECT_EQ(Commit(entries), absl::StatusCode::kOk);
  LookupResult result;
  ASSERT_TRUE(WaitFor(index_->Lookup(kRepository, 1, std::span(&entries[0].digest, 1),
                                     std::span(&result, 1)))
                  .ok());
  EXPECT_EQ(result.locator, "here");
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 1u);
}

TEST_F(RocksDbFaultTest, FailedCommitsAreNotSeenAndCommittedOnesStay) {
  const std::vector<IndexEntry> kept = Entries(0, 100);
  const std::vector<IndexEntry> failed = Entries(100, 100);
  ASSERT_EQ(Commit(kept), absl::StatusCode::kOk);
  for (const auto& [fault, code] :
       {std::pair{Fault::kNoSpace, absl::StatusCode::kResourceExhausted},
        std::pair{Fault::kBroken, absl::StatusCode::kUnavailable}}) {
    files_->Set(fault);
    EXPECT_EQ(Commit(failed), code);
    EXPECT_EQ(HitCount(failed), 0u);
    EXPECT_EQ(HitCount(kept), 100u);
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 100u);
    // It does not recover by itself in mid-air: what it says of a later commit is true either way.
    files_->Set(Fault::kNone);
    const bool again = Commit(failed) == absl::StatusCode::kOk;
    EXPECT_EQ(HitCount(failed), again ? 100u : 0u);
    Open();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(HitCount(kept), 100u);
    EXPECT_EQ(HitCount(failed), again ? 100u : 0u);
    ASSERT_EQ(Commit(failed), absl::StatusCode::kOk);
    EXPECT_EQ(HitCount(failed), 100u);
    EXPECT_EQ(WaitFor(index_->Forget(kRepository, failed))->forgotten_count, 100u);
  }
}

// RocksDB's own way to wait for the disk ends the process behind a write that has failed.
TEST_F(RocksDbFaultTest, ItGoesOnBehindAFailedWrite) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kBroken}) {
    ASSERT_EQ(Commit(Entries(0, 10)), absl::StatusCode::kOk);
    files_->Set(fault);
    ASSERT_NE(Commit(Entries(10, 10)), absl::StatusCode::kOk);
    // Nothing of it is there, but it may have been removed by a call that has not waited yet.
    EXPECT_FALSE(WaitFor(index_->Forget(kRepository, Entries(20, 10))).ok());
    EXPECT_FALSE(WaitFor(index_->AdvanceEpoch(kRepository, 1, 0)).ok());
    EXPECT_EQ(HitCount(Entries(0, 10)), 10u);
    Open();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
  }
}

TEST_F(RocksDbFaultTest, AnEpochThatIsNotDurableDoesNotCount) {
  const std::vector<IndexEntry> entries = Entries(0, 10);
  ASSERT_EQ(Commit(entries), absl::StatusCode::kOk);
  files_->Set(Fault::kSyncBroken);
  EXPECT_EQ(WaitFor(index_->AdvanceEpoch(kRepository, 2, 0)).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
  // A session of that epoch is still told to look for itself.
  LookupResult result;
  ASSERT_TRUE(WaitFor(index_->Lookup(kRepository, 2, std::span(&entries[0].digest, 1),
                                     std::span(&result, 1)))
                  .ok());
  EXPECT_EQ(result.verdict, Verdict::kUnverified);
}

TEST_F(RocksDbFaultTest, SyncedCommitsWaitForTheDisk) {
  files_->Set(Fault::kSyncBroken);
  EXPECT_EQ(Commit(Entries(0, 10)), absl::StatusCode::kOk);
  Open(/*sync_commits=*/true);
  ASSERT_FALSE(HasFatalFailure());
  files_->Set(Fault::kSyncBroken);
  EXPECT_EQ(Commit(Entries(10, 10)), absl::StatusCode::kUnavailable);
}

TEST_F(RocksDbFaultTest, AForgetThatIsNotDurableIsAnError) {
  const std::vector<IndexEntry> entries = Entries(0, 10);
  ASSERT_EQ(Commit(entries), absl::StatusCode::kOk);
  files_->Set(Fault::kSyncBroken);
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, entries)).status().code(),
            absl::StatusCode::kUnavailable);
  // Repeated until it is durable.
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(WaitFor(index_->Forget(kRepository, entries)).ok());
  EXPECT_EQ(HitCount(entries), 0u);
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->entry_count, 0u);
}

}  // namespace
}  // namespace kerf
