#include "client/store/snapshots/store_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/store/format/durable_file.h"
#include "client/store/format/file_hook.h"
#include "client/store/snapshots/copies.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest() {
    Add("aaaa000000000001", 1);
    Add("bbbb000000000002", 2);
  }
  void Add(const std::string& id, std::int64_t started_unix_ns) {
    store::v1::Snapshot snapshot;
    snapshot.set_id(id);
    snapshot.set_started_unix_ns(started_unix_ns);
    ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }
  absl::Status Meet() { return memory_.Meet(test_.store()); }
  void SetBackTo(const std::string& copy) {
    std::filesystem::remove_all(test_.directory());
    std::filesystem::copy(copy, test_.directory(), std::filesystem::copy_options::recursive);
  }

  std::string StateFolder() const { return folder_.path() + "/state/kerf/stores"; }

  TestStore test_;
  const TemporaryFolder folder_;
  const StoreMemory memory_{StateFolder()};
};

TEST_F(MemoryTest, AStoreThatWasSetBackIsNoticedUntilItIsAccepted) {
  EXPECT_TRUE(Meet().ok());
  const std::string copy = folder_.path() + "/copy";
  std::filesystem::copy(test_.directory(), copy, std::filesystem::copy_options::recursive);
  EXPECT_TRUE(Meet().ok());
  Add("cccc000000000003", 3);
  EXPECT_TRUE(Meet().ok());
  EXPECT_THAT(memory_.IdsOf(test_.directory()), ElementsAre(test_.store().config().id()));
  SetBackTo(copy);
  EXPECT_TRUE(absl::IsDataLoss(Meet())) << Meet();
  // It does not become right by being used.
  for (int count = 4; count < 8; ++count) Add(Cat("cccc00000000000", count), count);
  EXPECT_TRUE(absl::IsDataLoss(Meet())) << Meet();
  EXPECT_TRUE(memory_.Accept(test_.store()).ok());
  EXPECT_TRUE(Meet().ok()) << Meet();
}

TEST_F(MemoryTest, AnEpochThatWentBackIsNoticed) {
  ASSERT_TRUE(test_.store().WriteEpoch(5).ok());
  EXPECT_TRUE(Meet().ok());
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  EXPECT_THAT(std::string(Meet().message()),
              AllOf(HasSubstr("--accept-set-back"), HasSubstr("--new-id")));
}

// Another agent of the same user takes the store further, and remembers that, in the middle of it.
TEST_F(MemoryTest, AStoreThatGoesOnMeanwhileWasNotSetBack) {
  SkipSyncForTest();
  ASSERT_TRUE(Meet().ok());
  bool came = true;
  for (int number = 0; came; ++number) {
    Meanwhile meanwhile(number, [&] {
      store::v1::Snapshot snapshot;
      EXPECT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
      EXPECT_TRUE(test_.store().WriteEpoch(static_cast<std::uint64_t>(number) + 2).ok());
      EXPECT_TRUE(Meet().ok());
    });
    EXPECT_TRUE(Meet().ok()) << "before operation " << number << ": " << Meet();
    came = meanwhile.came();
  }
}

// Nor does the first of them, whose look at the store is the older one, take back what the other
// has remembered.
TEST_F(MemoryTest, WhatAnotherAgentRemembersMeanwhileStays) {
  SkipSyncForTest();
  const std::string& id = test_.store().config().id();
  ASSERT_TRUE(Meet().ok());
  int count = 0;
  bool came = true;
  for (int number = 0; came; ++number) {
    const std::uint64_t epoch = 10 * static_cast<std::uint64_t>(number) + 10;
    ASSERT_TRUE(test_.store().WriteEpoch(epoch).ok());
    std::uint64_t remembered = 0;
    Meanwhile meanwhile(number, [&] {
      // While the first one holds the lock the other waits.
      const UniqueFd lock(open(StateFolder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
      flock(lock.get(), LOCK_UN);
      EXPECT_TRUE(test_.store().WriteEpoch(epoch + 5).ok());
      EXPECT_TRUE(Meet().ok());
      remembered = memory_.EpochOf(id);
      ++count;
    });
    EXPECT_TRUE(Meet().ok()) << "before operation " << number << ": " << Meet();
    came = meanwhile.came();
    EXPECT_GE(memory_.EpochOf(id), remembered) << "before operation " << number;
  }
  EXPECT_GT(count, 3);
}

// Nor do several that have something to remember at the same moment.
TEST_F(MemoryTest, AgentsThatRememberAtOnceLoseNothing) {
  SkipSyncForTest();
  constexpr int kAgents = 4;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    const StoreMemory memory(Cat(folder_.path(), "/state-", round));
    std::vector<std::unique_ptr<Store>> copies;
    for (int agent = 0; agent < kAgents; ++agent) {
      const std::string copy = Cat(folder_.path(), "/copy-", round, "-", agent);
      std::filesystem::copy(test_.directory(), copy, std::filesystem::copy_options::recursive);
      auto opened = Store::OpenForWriting(copy);
      ASSERT_TRUE(opened.ok()) << opened.status();
      copies.push_back(*std::move(opened));
    }
    ASSERT_TRUE(test_.store().WriteEpoch(static_cast<std::uint64_t>(round) + 2).ok());
    ASSERT_TRUE(memory.Meet(test_.store()).ok());
    std::vector<std::thread> agents;
    agents.reserve(kAgents);
    for (const std::unique_ptr<Store>& copy : copies) {
      agents.emplace_back([&] { EXPECT_TRUE(absl::IsDataLoss(memory.Meet(*copy))); });
    }
    for (std::thread& agent : agents) agent.join();
    // Each was seen behind, which stays so.
    for (const std::unique_ptr<Store>& copy : copies) {
      ASSERT_TRUE(copy->WriteEpoch(100).ok());
      EXPECT_TRUE(absl::IsDataLoss(memory.Meet(*copy))) << "round " << round;
    }
  }
}

// However busy the disk is to which another one of them writes.
TEST_F(MemoryTest, WhoHasSomethingToRememberWaitsForAnotherWhoDoes) {
  SkipSyncForTest();
  ASSERT_TRUE(Meet().ok());
  ASSERT_TRUE(test_.store().WriteEpoch(7).ok());
  const std::string& id = test_.store().config().id();
  const std::uint64_t before = memory_.EpochOf(id);
  UniqueFd lock(open(StateFolder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  std::thread other([&] { EXPECT_TRUE(Meet().ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(memory_.EpochOf(id), before);
  lock = UniqueFd();
  other.join();
  EXPECT_EQ(memory_.EpochOf(id), 7u);
}

// A listing that is read while a generation is replaced may have neither the old nor the new one.
TEST_F(MemoryTest, OneLookThatSeesTooLittleIsNotBelieved) {
  class TornListing final : public FileHook {
   public:
    explicit TornListing(std::string folder) : folder_(std::move(folder)) {
      SetFileHookForTest(this);
    }
    ~TornListing() override { SetFileHookForTest(nullptr); }
    absl::Status Before(const FileOperation& operation) override {
      SetFileHookForTest(nullptr);
      const bool lists =
          operation.kind == FileOperation::Kind::kListDirectory && operation.path == folder_;
      if (lists && hidden_.empty()) {
        const auto names = ListDirectory(folder_);
        for (const std::string& name : *names) {
          if (name.starts_with("generation-")) hidden_ = folder_ + "/" + name;
        }
        std::filesystem::rename(hidden_, folder_ + "/hidden");
      } else if (std::filesystem::exists(folder_ + "/hidden")) {
        std::filesystem::rename(folder_ + "/hidden", hidden_);
      }
      SetFileHookForTest(this);
      return absl::OkStatus();
    }

   private:
    const std::string folder_;
    std::string hidden_;
  };
  ASSERT_TRUE(Meet().ok());
  {
    const TornListing torn(test_.store().manifest().directory());
    EXPECT_TRUE(Meet().ok()) << Meet();
  }
  EXPECT_TRUE(Meet().ok()) << Meet();
}

// A collector or a backup has died behind a rename, others have seen the new name, and a power cut
// takes it: so what they remember is durable.
TEST_F(MemoryTest, AStoreThatLosesAtAPowerCutWhatNobodyMadeDurableWasNotSetBack) {
  EXPECT_TRUE(Meet().ok());
  const std::string copy = folder_.path() + "/copy";
  std::filesystem::copy(test_.directory(), copy, std::filesystem::copy_options::recursive);
  DiskHook disk(test_.directory());
  disk.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "",
                              absl::UnknownError("Input/output error")));
  EXPECT_FALSE(test_.store().WriteEpoch(5).ok());
  EXPECT_FALSE(test_.store().manifest().RaiseGeneration().ok());
  EXPECT_EQ(*test_.store().ReadEpoch(), 5u);
  EXPECT_TRUE(Meet().ok());
  std::vector<std::string> synced;
  disk.RefuseWith([&](const FileOperation& operation) {
    if (operation.kind == FileOperation::Kind::kSyncDirectory) synced.emplace_back(operation.path);
    return absl::OkStatus();
  });
  // The disk has lost it, or is asked to keep it before it is remembered.
  SetBackTo(copy);
  EXPECT_TRUE(Meet().ok()) << Meet();
  ASSERT_TRUE(test_.store().WriteEpoch(5).ok());
  synced.clear();
  EXPECT_TRUE(Meet().ok());
  EXPECT_THAT(synced, IsSupersetOf({test_.directory(), CopiesDirectory(test_.directory()),
                                    test_.store().manifest().directory()}));
}

TEST_F(MemoryTest, WithoutAHomeNothingIsRemembered) {
  const StoreMemory none{std::string()};
  EXPECT_TRUE(none.Meet(test_.store()).ok());
  ASSERT_TRUE(test_.store().WriteEpoch(5).ok());
  EXPECT_TRUE(none.Meet(test_.store()).ok());
  EXPECT_TRUE(none.Accept(test_.store()).ok());
  EXPECT_THAT(none.IdsOf(test_.directory()), IsEmpty());
}

}  // namespace
}  // namespace kerf::agent
