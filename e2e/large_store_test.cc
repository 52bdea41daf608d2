// A store of more chunks than an agent lists: what a backup of little into it takes of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/fs/testing/settle.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/hollow_packs.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kChunkCount = 2'000'000;
constexpr std::uint64_t kFileCount = 20;
// What may be known of the store, and what it takes where all of it is listed: 64 bytes a chunk.
constexpr std::uint64_t kLittleMib = 32;
constexpr std::uint64_t kListMib = kChunkCount * 64 >> 20;
// Two runs that do the same differ by as much, and each reads one footer beside those it keeps.
constexpr std::uint64_t kSlackMib = 16;

class LargeStoreTest : public RoundTrip {
 protected:
  LargeStoreTest() {
    std::filesystem::create_directory(tree_);
    for (std::uint64_t number = 0; number < kFileCount; ++number) {
      WriteText(Cat(tree_, "/", number), std::string(1000, 'x') + Cat(number));
    }
    agent::testing::LetFilesSettle();
  }

  // Its summary, and what it took.
  nlohmann::json Backup(const std::string& memory, std::uint64_t& peak_mib) {
    const Completed run =
        world_.Kerf({"backup", tree_, "--chunk-list-memory", memory, "--streams", "1", "--json"});
    EXPECT_EQ(run.exit_code, kOk) << run.out << run.err;
    peak_mib = run.peak_resident_mib;
    std::printf("--chunk-list-memory %s: %zu MiB\n", memory.c_str(),
                static_cast<std::size_t>(peak_mib));
    const std::size_t begin = run.out.rfind("{\"", run.out.rfind("\"summary\""));
    return nlohmann::json::parse(run.out.substr(begin), nullptr, false);
  }
  void AddChunks() { agent::WriteHollowPacks(world_.store() + "/packs", /*seed=*/1, kChunkCount); }
  // Of a collection that has died before it deleted anything: who sees it looks at all chunks.
  void LeaveAPlan() {
    const auto store = agent::Store::Open(world_.store());
    ASSERT_TRUE(store.ok()) << store.status();
    agent::CollectionPlan plan;
    plan.target_epoch = 3;
    ASSERT_TRUE(
        agent::WriteCollectionPlan((*store)->plan_path(), (*store)->temporary_directory(), plan)
            .ok());
  }
};

TEST_F(LargeStoreTest, ABackupTakesNoMoreThanItMay) {
  const std::string little = Cat(kLittleMib, "M");
  std::uint64_t small_mib = 0;
  EXPECT_EQ(Backup(little, small_mib)["by_place"], false);
  AddChunks();
  std::uint64_t peak_mib = 0;
  const nlohmann::json second = Backup(little, peak_mib);
  EXPECT_EQ(second["by_place"], true);
  EXPECT_EQ(second["unchanged_files"], kFileCount) << "the index says where their chunks are";
  EXPECT_EQ(second["stale_chunks"], 0);
  EXPECT_LE(peak_mib, small_mib + kLittleMib + kSlackMib);
  // All footers are read now.
  LeaveAPlan();
  EXPECT_EQ(Backup(little, peak_mib)["by_place"], true);
  EXPECT_LE(peak_mib, small_mib + kLittleMib + kSlackMib);
  // The list is what would have been too much.
  std::uint64_t list_mib = 0;
  EXPECT_EQ(Backup("1G", list_mib)["by_place"], false);
  EXPECT_GE(list_mib, small_mib + kListMib - kSlackMib);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(LargeStoreTest, WhoHasToLookChunkByChunkIsTold) {
  world_.Backup({tree_});
  const Completed by_place = world_.Kerf({"backup", tree_, "--chunk-list-memory", "0"});
  EXPECT_EQ(by_place.exit_code, kOk);
  EXPECT_THAT(by_place.out, HasSubstr("--chunk-list-memory"));
  EXPECT_THAT(by_place.err, IsEmpty());
  const Completed listed = world_.Kerf({"backup", tree_});
  EXPECT_THAT(listed.out, Not(HasSubstr("--chunk-list-memory")));
  const Completed refused = world_.Kerf({"backup", tree_, "--chunk-list-memory", "much"});
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_THAT(refused.err, HasSubstr("--chunk-list-memory"));
}

}  // namespace
}  // namespace kerf::e2e
