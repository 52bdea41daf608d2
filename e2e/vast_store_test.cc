// A store of hundreds of millions of chunks: what a backup of little into it takes of memory.
//
// Its packs are hollow: their footers are real, and what they would hold is a hole of the file.
// KERF_VAST_STORE_CHUNKS says how many chunks they name, and KERF_VAST_STORE_INDEXED of how many of
// them kerfd is told, which takes most of the time: the agent asks of its own chunks alone. With
// 200 million it is what docs/hacking.md says; it is not among the tests that run by themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "client/cpp/server_address.h"
#include "client/cpp/server_index.h"
#include "client/fs/testing/settle.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/format/pack_format.h"
#include "client/store/packs/known_pack.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/hollow_packs.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kFileCount = 50;
// What must hold, of 200 million chunks.
constexpr std::uint64_t kMaxMib = 1024;
// Less is not worth holding to: what an agent takes in an empty store, and the packs of a sample.
constexpr std::uint64_t kMinMaxMib = 256;
constexpr unsigned kThreadCount = 4;

std::uint64_t NumberOf(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  std::uint64_t number = usual;
  KERF_CHECK(text == nullptr || absl::SimpleAtoi(text, &number));
  return number;
}

double SecondsSince(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

class VastStoreTest : public RoundTrip {
 protected:
  VastStoreTest() {
    world_.StartServer({"--listen", "127.0.0.1:0"});
    std::filesystem::create_directory(tree_);
    for (std::uint64_t number = 0; number < kFileCount; ++number) {
      WriteText(Cat(tree_, "/", number), std::string(20'000, 'x') + Cat(number));
    }
    agent::testing::LetFilesSettle();
    // In the order in which they are made, whoever makes them.
    Random random(1);
    ids_.resize((chunk_count_ + agent::kHollowPackChunks - 1) / agent::kHollowPackChunks);
    for (agent::PackId& id : ids_) random.Fill(id.bytes);
  }

  // The store's footers, and kerfd's index.
  void Fill() {
    const auto begin = steady_clock::now();
    const auto store = agent::Store::Open(world_.store());
    ASSERT_TRUE(store.ok()) << store.status();
    const std::uint64_t epoch = *(*store)->ReadEpoch();
    const client::ServerAddress server{world_.last_address()};
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    threads.reserve(kThreadCount);
    for (unsigned count = 0; count < kThreadCount; ++count) {
      threads.emplace_back([&] {
        const auto channel = client::OpenChannel(server);
        KERF_CHECK(channel.ok());
        client::ServerIndex index(*channel, (*store)->config().id(), (*store)->digest_algorithm());
        for (std::size_t at = next++; at < ids_.size(); at = next++) MakePack(at, epoch, index);
      });
    }
    threads.clear();
    std::printf("%zu packs of %zu chunks, of which kerfd knows %zu: %.0f s\n", ids_.size(),
                static_cast<std::size_t>(chunk_count_),
                static_cast<std::size_t>(std::min(chunk_count_, indexed_count_)),
                SecondsSince(begin));
  }

  // Its summary. Fails if it took more than it may.
  nlohmann::json Backup(const std::string& what) {
    const auto begin = steady_clock::now();
    const Completed run =
        world_.Kerf({"backup", tree_, "--chunk-list-memory", Cat(memory_mib_, "M"), "--json"});
    EXPECT_EQ(run.exit_code, kOk) << run.out << run.err;
    std::printf("%s: %zu MiB at most, %.1f s\n", what.c_str(),
                static_cast<std::size_t>(run.peak_resident_mib), SecondsSince(begin));
    EXPECT_LE(run.peak_resident_mib, std::max(memory_mib_, kMinMaxMib)) << what;
    const std::size_t at = run.out.rfind("{\"", run.out.rfind("\"summary\""));
    return nlohmann::json::parse(run.out.substr(at), nullptr, false);
  }

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

  // A restore lists all chunks, 13 GB of 200 million: what it brings back is in the other packs.
  void TakeHollowPacksAway() {
    const std::string packs = world_.store() + "/packs";
    for (const agent::PackId& id : ids_) std::filesystem::remove(agent::PackPathIn(packs, id));
  }

  const std::uint64_t chunk_count_ = NumberOf("KERF_VAST_STORE_CHUNKS", 2'000'000);
  const std::uint64_t indexed_count_ = NumberOf("KERF_VAST_STORE_INDEXED", 200'000);
  // Half of it is for the list, which has 64 bytes a chunk: none fits.
  const std::uint64_t memory_mib_ = std::min(kMaxMib, chunk_count_ * 64 >> 20);

 private:
  void MakePack(std::size_t at, std::uint64_t epoch, client::ServerIndex& index) {
    const std::uint64_t first = std::uint64_t{at} * agent::kHollowPackChunks;
    const auto count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(chunk_count_ - first, agent::kHollowPackChunks));
    agent::WriteHollowPack(world_.store() + "/packs", ids_[at], first, count);
    std::vector<agent::StoredChunk> chunks;
    for (std::uint32_t number = 0; number < count && first + number < indexed_count_; ++number) {
      const agent::ChunkRef chunk = agent::HollowChunk(first + number);
      chunks.push_back({chunk.digest, chunk.length_bytes, agent::EncodeLocator(ids_[at], number)});
    }
    if (!chunks.empty()) KERF_CHECK(index.Commit(epoch, chunks).ok());
  }

  std::vector<agent::PackId> ids_;
};

TEST_F(VastStoreTest, ABackupOfLittleTakesLittle) {
  Backup("into an empty store");
  Fill();
  WriteText(tree_ + "/0", "changed");
  WriteText(tree_ + "/new", std::string(20'000, 'y'));
  agent::testing::LetFilesSettle();
  const nlohmann::json second = Backup("by place");
  EXPECT_EQ(second["by_place"], true);
  EXPECT_EQ(second["unchanged_files"], kFileCount - 1) << "the index says where their chunks are";
  EXPECT_EQ(second["stale_chunks"], 0);
  // All footers are read now.
  LeaveAPlan();
  EXPECT_EQ(Backup("by place, behind a collection")["by_place"], true);
  TakeHollowPacksAway();
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

}  // namespace
}  // namespace kerf::e2e
