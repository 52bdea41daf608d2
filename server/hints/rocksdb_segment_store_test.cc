#include "server/hints/rocksdb_segment_store.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "server/hints/testing/conformance.h"
#include "server/index/testing/faulty_file_system.h"

namespace kerf {
namespace {

// Gone with its end.
class Folder {
 public:
  Folder() {
    static std::atomic<int> count{0};
    const char* const base = std::getenv("TEST_TMPDIR");
    path_ = Cat(base == nullptr ? "/tmp" : base, "/segments_", count.fetch_add(1));
    std::filesystem::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

  std::uint64_t size_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      // It may be deleted meanwhile.
      std::error_code error;
      const std::uintmax_t size = entry.file_size(error);
      if (!error && entry.path().extension() == ".sst") bytes += size;
    }
    return bytes;
  }

 private:
  std::string path_;
};

class StoreInFolder final : public SegmentStore {
 public:
  StoreInFolder() {
    auto opened = OpenRocksDbSegmentStore(folder_.path(), {8 * kMiB, kMiB, kMiB});
    KERF_CHECK(opened.ok());
    store_ = *std::move(opened);
  }
  void FindByAnchor(const HintScope& scope, const Digest& anchor, FindDone done) override {
    store_->FindByAnchor(scope, anchor, std::move(done));
  }
  void Fetch(const HintScope& scope, const SegmentId& id, FetchDone done) override {
    store_->Fetch(scope, id, std::move(done));
  }
  void Put(const HintScope& scope, std::vector<StoredSegment> segments, PutDone done) override {
    store_->Put(scope, std::move(segments), std::move(done));
  }
  std::string_view backend_name() const override { return store_->backend_name(); }

 private:
  Folder folder_;
  std::unique_ptr<SegmentStore> store_;
};

INSTANTIATE_TEST_SUITE_P(RocksDb, SegmentStoreConformance, ::testing::Values(SegmentStoreLeaf{[] {
                           return std::make_unique<StoreInFolder>();
                         }}));

HintScope AnyScope() {
  const auto profile = ParseProfile("mincdc-8k");
  KERF_CHECK(profile.ok());
  return HintScope({"photos", DigestAlgorithm::kBlake3}, *profile);
}

StoredSegment SegmentOf(Random& random, std::size_t size_bytes, std::size_t anchor_count) {
  StoredSegment segment;
  random.Fill(segment.id.bytes);
  segment.bytes.assign(size_bytes, 'x');
  segment.anchors.resize(anchor_count);
  for (Digest& anchor : segment.anchors) random.Fill(anchor.bytes);
  return segment;
}

TEST(RocksDbSegmentStore, ItIsThereAfterAnEndInOrder) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  {
    const auto store = OpenRocksDbSegmentStore(folder.path(), {});
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(PutAndWait(**store, scope, {segment}).ok());
    // Not twice at a time.
    EXPECT_FALSE(OpenRocksDbSegmentStore(folder.path(), {}).ok());
  }
  const auto store = OpenRocksDbSegmentStore(folder.path(), {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(FetchAndWait(**store, scope, segment.anchors[2]).value_or("error"), segment.bytes);
}

TEST(RocksDbSegmentStore, ItStaysWithinItsBoundAndForgetsTheOldest) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  constexpr std::uint64_t kCapacityBytes = 4 * kMiB;
  const auto store = OpenRocksDbSegmentStore(folder.path(), {kCapacityBytes, kMiB, kMiB});
  ASSERT_TRUE(store.ok()) << store.status();
  const StoredSegment oldest = SegmentOf(random, 30'000, 3);
  ASSERT_TRUE(PutAndWait(**store, scope, {oldest}).ok());
  StoredSegment newest;
  // Writes that would have to wait for the disk are refused: then it is written again.
  for (std::uint64_t written = 0; written < 5 * kCapacityBytes;) {
    newest = SegmentOf(random, 30'000, 40);
    if (PutAndWait(**store, scope, {newest}).ok()) written += newest.bytes.size();
  }
  EXPECT_EQ(FetchAndWait(**store, scope, newest.anchors[0]).value_or("error"), newest.bytes);
  // Files are deleted in the background.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (folder.size_bytes() > kCapacityBytes + kMiB &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LE(folder.size_bytes(), kCapacityBytes + kMiB);
  EXPECT_EQ(FetchAndWait(**store, scope, oldest.id).value_or("error"), std::nullopt);
  EXPECT_EQ(FetchAndWait(**store, scope, oldest.anchors[0]).value_or("error"), std::nullopt);
}

TEST(RocksDbSegmentStore, ADamagedOneIsBegunAnew) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  {
    const auto store = OpenRocksDbSegmentStore(folder.path(), {});
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(PutAndWait(**store, scope, {SegmentOf(random, 1000, 3)}).ok());
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("MANIFEST")) {
      std::ofstream(entry.path(), std::ios::trunc) << "no manifest";
    }
  }
  const auto store = OpenRocksDbSegmentStore(folder.path(), {});
  ASSERT_TRUE(store.ok()) << store.status();
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  ASSERT_TRUE(PutAndWait(**store, scope, {segment}).ok());
  EXPECT_EQ(FetchAndWait(**store, scope, segment.id).value_or("error"), segment.bytes);
}

// Beside an index that still has to sort what it has.
TEST(RocksDbSegmentStore, ADiskWithLittleRoomLeftIsReadOnly) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  RocksDbSegmentOptions options;
  {
    const auto store = OpenRocksDbSegmentStore(folder.path(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(PutAndWait(**store, scope, {segment}).ok());
  }
  options.min_free_bytes = std::uint64_t{1} << 60;
  const auto store = OpenRocksDbSegmentStore(folder.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(PutAndWait(**store, scope, {SegmentOf(random, 1000, 3)}).code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(FetchAndWait(**store, scope, segment.id).value_or("error"), segment.bytes);
}

// Else each file that comes and goes beside them would be a line in the log.
TEST(RocksDbSegmentStore, OnceThereWasNoRoomThereMustBeMoreThanEnough) {
  Random random(TestSeed());
  const Folder folder;
  RocksDbSegmentOptions options{8 * kMiB, kMiB, kMiB, /*min_free_bytes=*/100 * kMiB};
  std::uint64_t free_bytes = 0;
  options.read_disk = [&](const std::string&) { return DiskState{.free_bytes = free_bytes}; };
  const auto store = OpenRocksDbSegmentStore(folder.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  struct Step {
    std::uint64_t free_mib;
    bool is_put;
  };
  for (const auto& [free_mib, is_put] :
       {Step{104, true}, Step{99, false}, Step{104, false}, Step{99, false}, Step{120, true},
        Step{104, true}, Step{99, false}}) {
    free_bytes = free_mib * kMiB;
    EXPECT_EQ(PutAndWait(**store, AnyScope(), {SegmentOf(random, 1000, 3)}).ok(), is_put)
        << free_mib;
  }
}

// A disk that fails for a while, and comes back.
TEST(RocksDbSegmentStore, ADatabaseThatFailedIsOpenedAnewAfterAWhile) {
  using std::chrono::steady_clock;
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  const auto files = std::make_shared<FaultyFileSystem>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  RocksDbSegmentOptions options{8 * kMiB, kMiB, kMiB};
  options.env = env.get();
  options.first_wait = std::chrono::milliseconds(400);
  const auto store = OpenRocksDbSegmentStore(folder.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  files->Set(Fault::kBroken);
  const auto deadline = steady_clock::now() + std::chrono::seconds(30);
  const auto put = [&](const StoredSegment& segment) {
    return PutAndWait(**store, scope, {segment});
  };
  // Until a memtable was to be written; what it says before that is that it does not want to wait.
  while (put(SegmentOf(random, 30'000, 3)).message().find("test: write") == std::string::npos) {
    ASSERT_LT(steady_clock::now(), deadline);
  }
  const auto failed = steady_clock::now();
  files->Set(Fault::kNone);
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  while (!put(segment).ok()) {
    ASSERT_LT(steady_clock::now(), deadline) << put(segment);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(steady_clock::now() - failed, std::chrono::milliseconds(300)) << "not at each attempt";
  EXPECT_EQ(FetchAndWait(**store, scope, segment.id).value_or("error"), segment.bytes);
}

TEST(RocksDbSegmentStore, WhatCannotBeOpenedInTheBeginningIsOpenedLater) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  const auto files = std::make_shared<FaultyFileSystem>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  files->Set(Fault::kBroken);
  RocksDbSegmentOptions options;
  options.env = env.get();
  EXPECT_FALSE(OpenRocksDbSegmentStore(folder.path(), options).ok());
  options.opens_later = true;
  options.first_wait = std::chrono::milliseconds(1);
  const auto store = OpenRocksDbSegmentStore(folder.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  EXPECT_FALSE(FetchAndWait(**store, scope, segment.id).ok());
  EXPECT_FALSE(PutAndWait(**store, scope, {segment}).ok());
  files->Set(Fault::kNone);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!PutAndWait(**store, scope, {segment}).ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(FetchAndWait(**store, scope, segment.id).value_or("error"), segment.bytes);
}

// A clock of the machine that is set.
class AheadEnv final : public rocksdb::EnvWrapper {
 public:
  AheadEnv() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "ahead"; }
  rocksdb::Status GetCurrentTime(std::int64_t* seconds) override {
    const rocksdb::Status status = EnvWrapper::GetCurrentTime(seconds);
    *seconds += ahead.count();
    return status;
  }

  std::chrono::seconds ahead{0};
};

TEST(RocksDbSegmentStore, AClockThatIsSetForwardMakesNothingOld) {
  Random random(TestSeed());
  const Folder folder;
  const HintScope scope = AnyScope();
  const StoredSegment segment = SegmentOf(random, 1000, 3);
  AheadEnv env;
  RocksDbSegmentOptions options;
  options.env = &env;
  // Each end in order writes a file, behind which RocksDB looks for files that are old.
  for (const int ahead_days : {0, 365, 365}) {
    env.ahead = ahead_days * std::chrono::hours(24);
    const auto store = OpenRocksDbSegmentStore(folder.path(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    const StoredSegment next = ahead_days == 0 ? segment : SegmentOf(random, 1000, 3);
    ASSERT_TRUE(PutAndWait(**store, scope, {next}).ok());
  }
  const auto store = OpenRocksDbSegmentStore(folder.path(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(FetchAndWait(**store, scope, segment.id).value_or("error"), segment.bytes);
}

// The umask of a service whose unix socket is for everybody.
TEST(RocksDbSegmentStore, NobodyElseGetsIntoItsFolder) {
  const Folder folder;
  const mode_t before = umask(0);
  const auto store = OpenRocksDbSegmentStore(folder.path(), {});
  umask(before);
  ASSERT_TRUE(store.ok()) << store.status();
  const std::filesystem::file_status made = std::filesystem::status(folder.path());
  EXPECT_EQ(made.permissions(), std::filesystem::perms::owner_all);
}

TEST(RocksDbSegmentStore, AFolderOfSomebodyElseIsLeftAlone) {
  const Folder folder;
  std::filesystem::create_directories(folder.path());
  std::ofstream(folder.path() + "/CURRENT") << "MANIFEST-000001\n";
  const auto store = OpenRocksDbSegmentStore(folder.path(), {});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition) << store.status();
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/CURRENT"));
}

}  // namespace
}  // namespace kerf
