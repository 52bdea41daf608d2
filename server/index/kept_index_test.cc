// An embedded index that is damaged, cannot be written, or has lost its log: it says so, mends what
// can be mended, and names nothing that was forgotten.
#include "server/index/kept_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/wait_for.h"
#include "server/index/testing/faulty_file_system.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

void FlipByte(const std::string& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
  ASSERT_TRUE(file.good());
}

class KeptIndexTest : public testing::Test {
 protected:
  KeptIndexTest() {
    const char* root = std::getenv("TEST_TMPDIR");
    root_ = Cat(root != nullptr ? root : "/tmp", "/kerf_kept_index_test");
    folder_ = root_ + "/data";
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(folder_);
    options_.rocksdb = {.block_cache_bytes = kMiB, .memtable_bytes = 256 * kKiB, .env = env_.get()};
    options_.min_free_bytes = 2 * kMiB;
    options_.reserve_bytes = kMiB;
    options_.check_interval = milliseconds(5);
  }
  ~KeptIndexTest() override {
    files_->Set(Fault::kNone);
    files_->table_gate().SetOpen(true);
    index_.reset();
    std::filesystem::remove_all(root_);
  }

  void OpenIn(const std::string& folder) {
    index_.reset();
    auto index = OpenKeptIndex(folder, options_);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = *std::move(index);
  }
  void Open() { OpenIn(folder_); }
  // So that what is in the log is sorted into table files.
  void Reopen() {
    for (int round = 0; round < 2 && !HasFatalFailure(); ++round) Open();
  }

  absl::Status Commit(const std::vector<IndexEntry>& entries, std::uint64_t epoch = 1) {
    return WaitFor(index_->Commit(kRepository, epoch, entries, /*replace=*/false));
  }
  absl::StatusOr<std::uint64_t> Advance(std::uint64_t epoch, std::uint64_t min_before) {
    return WaitFor(index_->AdvanceEpoch(kRepository, epoch, min_before));
  }
  std::size_t CountOf(Verdict verdict, const std::vector<IndexEntry>& entries,
                      std::uint64_t epoch = 1) {
    std::vector<Digest> digests;
    digests.reserve(entries.size());
    for (const IndexEntry& entry : entries) digests.push_back(entry.digest);
    std::vector<LookupResult> results(digests.size());
    const absl::Status status = WaitFor(index_->Lookup(kRepository, epoch, digests, results));
    EXPECT_TRUE(status.ok()) << status;
    return static_cast<std::size_t>(
        std::count_if(results.begin(), results.end(),
                      [&](const LookupResult& result) { return result.verdict == verdict; }));
  }

  std::vector<std::string> FilesOf(const std::string& folder, const std::string& extension) {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == extension) paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  // Those that have something.
  std::vector<std::string> LogsOf(const std::string& folder) {
    std::vector<std::string> logs = FilesOf(folder, ".log");
    std::erase_if(logs, [](const std::string& log) { return std::filesystem::is_empty(log); });
    return logs;
  }
  std::size_t DamagedCount() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      count += entry.path().filename().string().starts_with("index.damaged-") ? 1 : 0;
    }
    return count;
  }

  static void WriteMark(const std::string& path, int number) { std::ofstream(path) << number; }
  // Of those that were set aside.
  bool HasMark(int number) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      std::ifstream mark(entry.path() / "mark");
      int found = -1;
      if (mark >> found && found == number) return true;
    }
    return false;
  }

  bool WaitUntil(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    return condition();
  }
  bool WaitUntilWell() {
    return WaitUntil([this] { return index_->health().status.ok(); });
  }

  // What docs/adr/0005 asks of an index that has gone back to its beginning.
  void ExpectBegunAnew() {
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
    // A late commit of a session from before collections that the index has known of.
    ASSERT_TRUE(Commit(Entries(500'000, 1), 3).ok());
    EXPECT_EQ(CountOf(Verdict::kUnverified, Entries(500'000, 1), 7), 1u);
    // Nobody can take it for one that has lost nothing.
    EXPECT_EQ(Advance(8, 7).value(), 0u);
    EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 0u);
    EXPECT_EQ(CountOf(Verdict::kUnverified, Entries(500'000, 1), 7), 1u);
  }

  const std::shared_ptr<FaultyFileSystem> files_ = std::make_shared<FaultyFileSystem>();
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(files_);
  std::string root_;
  std::string folder_;
  KeptIndexOptions options_;
  std::unique_ptr<Index> index_;
  std::uint64_t next_entry_ = 0;
};

TEST_F(KeptIndexTest, AnIndexWithAWrongBitIsSetAside) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 5000)).ok());
  ASSERT_TRUE(Advance(7, 0).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  index_.reset();
  for (const std::string& table : FilesOf(folder_ + "/index", ".sst")) {
    FlipByte(table, std::filesystem::file_size(table) / 3);
  }
  Open();
  ASSERT_FALSE(HasFatalFailure());
  // Whoever meets the damage first is answered by the new one.
  EXPECT_EQ(CountOf(Verdict::kNew, Entries(0, 5000), 7), 5000u);
  EXPECT_TRUE(index_->health().status.ok());
  EXPECT_THAT(index_->health().findings,
              ElementsAre(AllOf(HasSubstr("was damaged"), HasSubstr("index.damaged-"),
                                HasSubstr("kerf index rebuild"))));
  EXPECT_EQ(DamagedCount(), 1u);
  ExpectBegunAnew();
  ASSERT_TRUE(Commit(Entries(0, 5000), 7).ok());
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(0, 5000), 7), 5000u);
  EXPECT_THAT(index_->health().findings, IsEmpty());
}

TEST_F(KeptIndexTest, AnIndexThatCannotBeOpenedIsSetAside) {
  const std::vector<std::function<void()>> damages = {
      // RocksDB would begin a new one beside the tables.
      [&] {
        std::filesystem::remove(folder_ + "/index/CURRENT");
        for (const std::string& log : FilesOf(folder_ + "/index", ".log")) {
          std::filesystem::remove(log);
        }
      },
      [&] {
        for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/index")) {
          if (entry.path().filename().string().starts_with("MANIFEST")) {
            std::filesystem::resize_file(entry.path(), 10);
          }
        }
      },
      [&] { std::filesystem::remove(FilesOf(folder_ + "/index", ".sst").at(0)); },
  };
  for (const auto& damage : damages) {
    Open();
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_TRUE(Commit(Entries(0, 100)).ok());
    ASSERT_TRUE(Advance(7, 0).ok());
    Reopen();
    ASSERT_FALSE(HasFatalFailure());
    index_.reset();
    damage();
    Open();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(CountOf(Verdict::kNew, Entries(0, 100), 7), 100u);
    EXPECT_THAT(index_->health().findings, ElementsAre(HasSubstr("it is set aside in")));
    ExpectBegunAnew();
    index_.reset();
    std::filesystem::remove_all(folder_ + "/index");
  }
  // The disk is not filled with them.
  EXPECT_EQ(DamagedCount(), static_cast<std::size_t>(kKeptDamaged));
}

TEST_F(KeptIndexTest, ALostLogIsToldOfOnce) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 100)).ok());
  index_.reset();
  const std::vector<std::string> logs = FilesOf(folder_ + "/index", ".log");
  ASSERT_FALSE(logs.empty());
  for (const std::string& log : logs) std::filesystem::remove(log);
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(CountOf(Verdict::kNew, Entries(0, 100)), 100u);
  // The entries, and how many there are.
  EXPECT_THAT(index_->health().findings,
              ElementsAre(AllOf(HasSubstr("has lost the last 101 of its writes"),
                                HasSubstr("kerf index rebuild"))));
  EXPECT_TRUE(index_->health().status.ok());
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_THAT(index_->health().findings, IsEmpty());
}

TEST_F(KeptIndexTest, ALogThatIsCutShortIsToldOf) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  for (int part = 0; part < 10; ++part) ASSERT_TRUE(Commit(Entries(100 * part, 100)).ok());
  index_.reset();
  const std::string log = FilesOf(folder_ + "/index", ".log").back();
  std::filesystem::resize_file(log, std::filesystem::file_size(log) / 2);
  Open();
  ASSERT_FALSE(HasFatalFailure());
  const std::size_t kept_count = CountOf(Verdict::kDuplicate, Entries(0, 1000));
  EXPECT_GT(kept_count, 0u);
  EXPECT_LT(kept_count, 1000u);
  EXPECT_THAT(index_->health().findings, ElementsAre(HasSubstr("has lost the last")));
}

// Of an index that is open: its mark may be renamed into its place meanwhile.
void CopyOpen(const std::string& from, const std::string& to) {
  constexpr int kMaxTries = 100;
  std::error_code error = std::make_error_code(std::errc::no_such_file_or_directory);
  for (int tries = 0; tries < kMaxTries && error == std::errc::no_such_file_or_directory; ++tries) {
    std::filesystem::remove_all(to);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  }
  ASSERT_FALSE(error) << error.message();
}

// Of two logs the first has what was forgotten, the second the epoch behind it: without the first
// one the second would make what is gone DUPLICATE.
TEST_F(KeptIndexTest, NoLostLogBringsBackWhatWasForgotten) {
  const std::vector<IndexEntry> forgotten = Entries(0, 50);
  const std::vector<IndexEntry> kept = Entries(50, 50);
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 100)).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Advance(2, 0).ok());
  files_->table_gate().SetOpen(false);
  ASSERT_EQ(WaitFor(index_->Forget(kRepository, forgotten))->forgotten_count, 50u);
  const std::string index_path = folder_ + "/index";
  for (std::uint64_t first = 1000; LogsOf(index_path).size() < 2; first += 100) {
    ASSERT_TRUE(Commit(Entries(first, 100), 2).ok());
    ASSERT_LT(first, 50'000u);
  }
  ASSERT_TRUE(Advance(3, 2).ok());
  ASSERT_EQ(WaitFor(index_->Forget(kRepository, forgotten))->removed_count, 0u);
  // As a machine leaves it that goes down now.
  const std::string image = root_ + "/image";
  std::filesystem::create_directory(image);
  CopyOpen(index_path, image + "/index");
  files_->table_gate().SetOpen(true);
  index_.reset();
  ASSERT_EQ(LogsOf(image + "/index").size(), 2u);

  Random random(TestSeed());
  const std::string victim = root_ + "/victim";
  const auto expect_safe = [&](const std::string& what,
                               const std::function<void(const std::string& log)>& damage,
                               std::size_t number) {
    index_.reset();
    std::filesystem::remove_all(victim);
    std::filesystem::copy(image, victim, std::filesystem::copy_options::recursive);
    damage(LogsOf(victim + "/index").at(number));
    OpenIn(victim);
    ASSERT_FALSE(HasFatalFailure()) << what;
    EXPECT_EQ(CountOf(Verdict::kDuplicate, forgotten, 3), 0u) << what;
    index_.reset();
  };
  expect_safe("nothing", [](const std::string&) {}, 0);
  OpenIn(victim);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(CountOf(Verdict::kDuplicate, kept, 3), kept.size());
  EXPECT_EQ(WaitFor(index_->Stats(kRepository))->epoch, 3u);
  index_.reset();
  for (const std::size_t number : {0u, 1u}) {
    expect_safe(
        Cat("log ", number, " is gone"),
        [](const std::string& log) { std::filesystem::remove(log); }, number);
    for (int round = 0; round < 4 && !HasFailure(); ++round) {
      expect_safe(
          Cat("log ", number, " is cut short"),
          [&](const std::string& log) {
            std::filesystem::resize_file(log, random.Below(std::filesystem::file_size(log)));
          },
          number);
      expect_safe(
          Cat("a bit of log ", number, " is wrong"),
          [&](const std::string& log) {
            FlipByte(log, random.Below(std::filesystem::file_size(log)));
          },
          number);
    }
  }
}

TEST_F(KeptIndexTest, ItTakesCommitsAgainWhenItsDiskIsWell) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 100)).ok());
  for (const Fault fault : {Fault::kNoSpace, Fault::kBroken, Fault::kSyncBroken}) {
    files_->Set(fault);
    // One of these waits for the disk.
    EXPECT_FALSE(Commit(Entries(1000, 10)).ok() &&
                 WaitFor(index_->Forget(kRepository, Entries(1000, 10))).ok());
    EXPECT_FALSE(index_->health().status.ok());
    // It is read, or says that it cannot be; it never says NEW of what it has.
    LookupResult result{Verdict::kUnverified, 0, ""};
    const Digest digest = Entries(0, 1)[0].digest;
    if (WaitFor(index_->Lookup(kRepository, 1, std::span(&digest, 1), std::span(&result, 1)))
            .ok()) {
      EXPECT_EQ(result.verdict, Verdict::kDuplicate);
    }
    files_->Set(Fault::kNone);
    ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
    EXPECT_TRUE(Commit(Entries(1000, 10)).ok());
    EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(0, 100)), 100u);
    EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(1000, 10)), 10u);
  }
  EXPECT_EQ(DamagedCount(), 0u);
}

TEST_F(KeptIndexTest, WhatCanNeverBeReadAgainIsSetAside) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 5000)).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  files_->Set(Fault::kTablesUnreadable);
  ASSERT_TRUE(WaitUntil([this] {
    const Digest digest = Entries(next_entry_++ % 5000, 1)[0].digest;
    LookupResult result;
    return WaitFor(index_->Lookup(kRepository, 1, std::span(&digest, 1), std::span(&result, 1)))
               .ok() &&
           DamagedCount() == 1;
  }));
  files_->Set(Fault::kNone);
  ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
  EXPECT_EQ(CountOf(Verdict::kNew, Entries(0, 5000)), 5000u);
  EXPECT_EQ(DamagedCount(), 1u);
}

TEST_F(KeptIndexTest, WhatTheProcessLacksIsNoDamageHoweverLong) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 5000)).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  files_->Set(Fault::kNoDescriptors);
  const Digest digest = Entries(0, 1)[0].digest;
  LookupResult result;
  // Time for some tries to open it again: their pauses grow from 5 ms on.
  const auto until = std::chrono::steady_clock::now() + milliseconds(600);
  while (std::chrono::steady_clock::now() < until) {
    EXPECT_FALSE(
        WaitFor(index_->Lookup(kRepository, 1, std::span(&digest, 1), std::span(&result, 1))).ok());
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_FALSE(index_->health().status.ok());
  files_->Set(Fault::kNone);
  ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
  EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(0, 5000)), 5000u);
  EXPECT_EQ(DamagedCount(), 0u);
}

// RocksDB calls that corruption.
TEST_F(KeptIndexTest, FilesThatItIsNotLetLookAtAreNoDamage) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 100)).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  index_.reset();
  files_->Set(Fault::kNoSizes);
  const auto refused = OpenKeptIndex(folder_, options_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_THAT(std::string(MessageOf(refused.status())), HasSubstr("Permission denied"));
  files_->Set(Fault::kNone);
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(0, 100)), 100u);
  EXPECT_EQ(DamagedCount(), 0u);
}

// What is the matter is looked at when it can be looked at.
TEST_F(KeptIndexTest, NothingIsSetAsideWithoutFileDescriptors) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 5000)).ok());
  Reopen();
  ASSERT_FALSE(HasFatalFailure());
  index_.reset();
  for (const std::string& table : FilesOf(folder_ + "/index", ".sst")) {
    FlipByte(table, std::filesystem::file_size(table) / 3);
  }
  Open();
  ASSERT_FALSE(HasFatalFailure());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The next one that would be used.
  const int free = dup(STDERR_FILENO);
  ASSERT_GE(free, 0);
  close(free);
  const rlimit none{static_cast<rlim_t>(free), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<Digest> digests;
  for (const IndexEntry& entry : Entries(0, 5000)) digests.push_back(entry.digest);
  std::vector<LookupResult> results(digests.size());
  const absl::Status status = WaitFor(index_->Lookup(kRepository, 1, digests, results));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(DamagedCount(), 0u);
  ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
  EXPECT_EQ(CountOf(Verdict::kNew, Entries(0, 5000)), 5000u);
  EXPECT_EQ(DamagedCount(), 1u);
}

// The clock may be set, and what is set aside last is what somebody wants to look at.
TEST_F(KeptIndexTest, TheLastDamagedIndexesAreKeptWhateverTheClockSays) {
  for (const char* time :
       {"29990101T000000Z", "29990101T000000Z-1", "20000101T000000Z-renamed by hand"}) {
    std::filesystem::create_directory(Cat(folder_, "/index.damaged-", time));
  }
  for (int round = 0; round < 2 * kKeptDamaged; ++round) {
    Open();
    ASSERT_FALSE(HasFatalFailure());
    index_.reset();
    WriteMark(folder_ + "/index/mark", round);
    std::filesystem::remove(folder_ + "/index/CURRENT");
    std::ofstream(folder_ + "/index/000001.log").put('x');
    Open();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(DamagedCount(), static_cast<std::size_t>(kKeptDamaged)) << round;
    EXPECT_TRUE(HasMark(round)) << "it was deleted at once";
    if (round > 0) {
      EXPECT_TRUE(HasMark(round - 1)) << "an older one was kept in its place";
    }
  }
}

TEST_F(KeptIndexTest, AFolderThatIsRemovedIsBegunAnew) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 100)).ok());
  ASSERT_TRUE(Advance(7, 0).ok());
  // At once: there is no moment at which it is not whole.
  std::filesystem::rename(folder_ + "/index", root_ + "/removed");
  ASSERT_TRUE(WaitUntil([this] { return CountOf(Verdict::kNew, Entries(0, 100), 7) == 100; }));
  ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
  ExpectBegunAnew();
  // All of it, from above: until it is back.
  std::filesystem::rename(folder_, folder_ + ".away");
  ASSERT_TRUE(WaitUntil([this] { return !index_->health().status.ok(); }));
  EXPECT_THAT(std::string(MessageOf(index_->health().status)), HasSubstr("is gone"));
  EXPECT_EQ(Commit(Entries(0, 1), 7).code(), absl::StatusCode::kUnavailable);
  std::filesystem::rename(folder_ + ".away", folder_);
  ASSERT_TRUE(WaitUntilWell()) << index_->health().status;
  EXPECT_TRUE(Commit(Entries(0, 1), 7).ok());
}

TEST_F(KeptIndexTest, CommitsLeaveRoomOnTheDiskAndForgettingGoesOn) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(Commit(Entries(0, 10)).ok());
  options_.min_free_bytes = std::uint64_t{1} << 60;
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(Commit(Entries(10, 10)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(MessageOf(index_->health().status)),
              AllOf(HasSubstr(folder_), HasSubstr("of room left")));
  EXPECT_EQ(CountOf(Verdict::kDuplicate, Entries(0, 10)), 10u);
  EXPECT_EQ(WaitFor(index_->Forget(kRepository, Entries(0, 10)))->forgotten_count, 10u);
  EXPECT_TRUE(Advance(2, 0).ok());
}

TEST_F(KeptIndexTest, ItKnowsHowLargeItIsAndHowMuchRoomItHas) {
  options_.count_interval = milliseconds(5);
  Open();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(index_->size().totals->entry_count, 0u);
  EXPECT_EQ(index_->size().min_free_disk_bytes, options_.min_free_bytes);
  ASSERT_TRUE(Commit(Entries(0, 10)).ok());
  const RepositoryId other{"other", DigestAlgorithm::kBlake3};
  const RepositoryId emptied{"emptied", DigestAlgorithm::kSha256};
  ASSERT_TRUE(WaitFor(index_->Commit(other, 1, Entries(0, 3), false)).ok());
  ASSERT_TRUE(WaitFor(index_->Commit(emptied, 1, Entries(0, 3), false)).ok());
  ASSERT_EQ(WaitFor(index_->Forget(emptied, Entries(0, 3)))->forgotten_count, 3u);
  ASSERT_TRUE(Advance(4, 0).ok());
  ASSERT_TRUE(WaitFor(index_->AdvanceEpoch(emptied, 6, 0)).ok());
  EXPECT_TRUE(WaitUntil([this] {
    const IndexTotals totals = *index_->size().totals;
    return totals.entry_count == 13 && totals.repository_count == 2 && totals.epoch == 6;
  })) << index_->size().totals->entry_count;
  const std::uint64_t before_bytes = *index_->size().disk_bytes;
  EXPECT_GT(before_bytes, 0u);
  std::ofstream(folder_ + "/index/more").write(std::string(kMiB, 'x').data(), kMiB);
  EXPECT_TRUE(WaitUntil([&] { return *index_->size().disk_bytes >= before_bytes + kMiB; }));
  EXPECT_GT(*index_->size().free_disk_bytes, 0u);
}

TEST_F(KeptIndexTest, WithoutRoomItIsNotOpened) {
  Open();
  ASSERT_FALSE(HasFatalFailure());
  index_.reset();
  // A log that is larger than any disk, as far as anybody can see.
  const std::string log = folder_ + "/index/999999.log";
  std::ofstream(log).put('x');
  std::filesystem::resize_file(log, std::uint64_t{1} << 42);
  const auto index = OpenKeptIndex(folder_, options_);
  EXPECT_EQ(index.status().code(), absl::StatusCode::kResourceExhausted) << index.status();
  EXPECT_THAT(std::string(MessageOf(index.status())), HasSubstr("make room"));
}

}  // namespace
}  // namespace kerf
