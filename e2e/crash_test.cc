// kill -9 of kerfd, of the agent or of both at seeded moments of a backup; then the same backup
// again. Held at each moment:
//   - the second backup ends well and its snapshot restores byte for byte (compared by diff);
//   - nothing that was committed is lost: what kerfd called DUPLICATE before it was killed is in
//     its index afterwards;
//   - nothing uncommitted is ever called DUPLICATE: every entry of the index names a chunk that
//     the store holds in exactly that place.
// KERF_CRASH_MOMENTS says how many (20); only kills of a backup that was still running count.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/units.h"
#include "base/wait_for.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/store.h"
#include "e2e/program.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/index/rocksdb_index.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLimit{60'000};
constexpr int kDefaultMoments = 20;
// A new store now and then: first backups die otherwise than later ones.
constexpr std::uint64_t kMomentsPerStore = 8;
constexpr std::uint64_t kFileCount = 48;
constexpr std::uint64_t kMaxFileBytes = 384 * kKiB;
constexpr std::size_t kLookupBatch = 16'384;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// What a store's packs hold, or an index names: digest -> locators.
using Places = std::map<std::string, std::set<std::string>>;

std::string BytesOf(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

class CrashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::printf("seed %llu\n", static_cast<unsigned long long>(TestSeed()));
    folder_ = Variable("TEST_TMPDIR") + "/kerf_crash_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/runs");
    tree_ = folder_ + "/tree";
    // Short: the path of a unix socket has at most 107 bytes.
    char socket_folder[] = "/tmp/kerf-crash-XXXXXX";
    ASSERT_NE(mkdtemp(socket_folder), nullptr);
    socket_folder_ = socket_folder;
    address_ = Cat("unix:", socket_folder_, "/kerfd");
    NewTree();
    NewStore();
  }

  void TearDown() override {
    server_.reset();
    for (int run = 1; HasFailure() && run <= run_count_; ++run) {
      const std::string said = ReadText(Cat(RunPrefix(run), ".err"));
      if (!said.empty()) std::fprintf(stderr, "run %d: %s\n", run, said.c_str());
    }
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(socket_folder_);
  }

  std::string RunPrefix(int run) const { return Cat(folder_, "/runs/", run); }
  std::string NextRun() { return RunPrefix(++run_count_); }
  std::string store_path() const { return Cat(folder_, "/store", generation_); }
  std::string data_path() const { return Cat(folder_, "/kerfd", generation_); }

  void WriteFile(std::uint64_t number) {
    std::string content(random_.Below(kMaxFileBytes), '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    const std::string path = Cat(tree_, "/folder", number % 5, "/file", number);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }

  void NewTree() {
    for (std::uint64_t number = 0; number < kFileCount; ++number) WriteFile(number);
  }

  // So that the next backup has something to send.
  void EditTree() {
    const std::uint64_t count = random_.Between(kFileCount / 4, kFileCount);
    for (std::uint64_t edit = 0; edit < count; ++edit) WriteFile(random_.Below(kFileCount));
  }

  void StartServer() {
    const std::string ready = folder_ + "/ready";
    std::filesystem::remove(ready);
    server_.emplace(
        std::vector<std::string>{kerfd_, "--listen", address_, "--data-dir", data_path(),
                                 "--ready-file", ready, "--log-level", "warning"},
        NextRun(), ProgramOptions());
    const auto end = Clock::now() + kLimit;
    while (!std::filesystem::exists(ready)) {
      ASSERT_FALSE(server_->HasEnded()) << "kerfd ended";
      ASSERT_LT(Clock::now(), end) << "kerfd does not start";
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // An empty store, with an empty index beside it.
  void NewStore() {
    if (server_) {
      server_.reset();
      std::filesystem::remove_all(store_path());
      std::filesystem::remove_all(data_path());
    }
    ++generation_;
    StartServer();
  }

  Program StartBackup() {
    return {{kerf_, "--quiet", "backup", tree_, "--store", store_path(), "--server", address_},
            NextRun(),
            ProgramOptions()};
  }

  void Run(const std::vector<std::string>& argv) {
    ASSERT_EQ(Program(argv, NextRun(), ProgramOptions()).Wait().exit_code, 0)
        << argv[0] << " " << argv[1];
  }

  void BackUpAndCheck(bool read_data) {
    const auto start = Clock::now();
    ASSERT_EQ(StartBackup().Wait().exit_code, 0) << "the backup";
    // One that the machine held up is soon forgotten: else most kills would come too late.
    longest_backup_ =
        std::max(longest_backup_ * 7 / 8,
                 std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start));
    const std::string target = folder_ + "/restored";
    std::filesystem::remove_all(target);
    ASSERT_NO_FATAL_FAILURE(
        Run({kerf_, "--quiet", "restore", "latest", "--store", store_path(), "--target", target}));
    ASSERT_NO_FATAL_FAILURE(
        Run({"/usr/bin/diff", "-r", "--no-dereference", tree_, target + tree_}));
    std::vector<std::string> verify = {kerf_, "--quiet", "verify", "--store", store_path()};
    if (read_data) verify.emplace_back("--read-data");
    ASSERT_NO_FATAL_FAILURE(Run(verify));
  }

  // Opens what the agent left; nothing if it did not come as far as making a store.
  std::unique_ptr<agent::Store> OpenStore() const {
    auto store = agent::Store::Open(store_path());
    return store.ok() ? *std::move(store) : nullptr;
  }

  static Places PlacesInStore(const agent::Store& store) {
    agent::ChunkIndex packs(store.packs_directory());
    const absl::Status status = packs.Refresh();
    EXPECT_TRUE(status.ok()) << status;
    Places places;
    for (const auto& pack : packs.packs()) {
      for (std::uint32_t index = 0; index < pack->footer.chunks.size(); ++index) {
        places[BytesOf(pack->footer.chunks[index].digest)].insert(
            agent::EncodeLocator(pack->id, index));
      }
    }
    return places;
  }

  // What the running kerfd calls DUPLICATE of the store's chunks. Nothing else can be: a digest
  // that it has committed is of a chunk that was in the store before.
  Places Duplicates(const agent::Store& store) {
    const Places known = PlacesInStore(store);
    const auto stub = v1::IndexService::NewStub(
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    Places duplicates;
    for (auto at = known.begin(); at != known.end();) {
      v1::LookupChunksRequest request;
      request.mutable_repository()->set_repository(store.config().id());
      request.mutable_repository()->set_digest_algorithm(store.config().digest_algorithm());
      request.set_store_epoch(1);
      for (std::size_t count = 0; at != known.end() && count < kLookupBatch; ++at, ++count) {
        request.add_digests(at->first);
      }
      v1::LookupChunksResponse response;
      grpc::ClientContext context;
      const grpc::Status status = stub->LookupChunks(&context, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (int index = 0; index < response.answers_size(); ++index) {
        const v1::LookupAnswer& answer = response.answers(index);
        if (answer.verdict() == v1::VERDICT_NEW) continue;
        EXPECT_EQ(answer.verdict(), v1::VERDICT_DUPLICATE);
        duplicates[request.digests(index)].insert(answer.entry().locator());
      }
    }
    ExpectHeld(duplicates, known);
    return duplicates;
  }

  // All entries of the index; kerfd does not run.
  Places IndexEntries(const agent::Store& store) const {
    const auto index = OpenRocksDbIndex(data_path() + "/index", RocksDbIndexOptions{});
    EXPECT_TRUE(index.ok()) << index.status();
    Places places;
    if (!index.ok()) return places;
    const RepositoryId repository{store.config().id(), store.digest_algorithm()};
    std::optional<Digest> after;
    while (true) {
      const auto page = WaitFor((*index)->Scan(repository, after, kLookupBatch));
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return places;
      for (const IndexEntry& entry : *page) places[BytesOf(entry.digest)].insert(entry.locator);
      after = page->back().digest;
    }
  }

  static void ExpectHeld(const Places& named, const Places& store) {
    std::size_t missing_count = 0;
    for (const auto& [digest, locators] : named) {
      const auto found = store.find(digest);
      for (const std::string& locator : locators) {
        missing_count += found == store.end() || !found->second.contains(locator) ? 1 : 0;
      }
    }
    EXPECT_EQ(missing_count, 0u) << "of " << named.size()
                                 << " entries name a chunk that the store does not hold there";
  }

  static void ExpectAllIn(const Places& before, const Places& after) {
    std::size_t lost_count = 0;
    for (const auto& [digest, locators] : before) lost_count += after.contains(digest) ? 0 : 1;
    EXPECT_EQ(lost_count, 0u) << "of " << before.size() << " committed chunks are lost";
  }

  // kerfd is killed: what it leaves is checked, and it is started again.
  void KillServer(const Places& committed) {
    server_->Kill();
    if (const std::unique_ptr<agent::Store> store = OpenStore(); store != nullptr) {
      // The index first: an agent that still lives may add packs, never take them away.
      const Places entries = IndexEntries(*store);
      ExpectHeld(entries, PlacesInStore(*store));
      ExpectAllIn(committed, entries);
    }
    StartServer();
  }

  // Returns whether the backup was still running when it struck.
  bool Strike(Program& backup) {
    const std::uint64_t victim = random_.Below(4);
    Places committed;
    // Asking takes a moment, so not always: the kill strikes a busier kerfd without it.
    if (random_.OneIn(2)) {
      if (const auto store = OpenStore(); store != nullptr) committed = Duplicates(*store);
    }
    if (victim == 0) return backup.Kill();
    const bool running = !backup.HasEnded();
    // The agent may find the new kerfd and go on, find none and end, or be killed before or after.
    if (victim == 1) backup.Kill();
    KillServer(committed);
    if (victim == 2) backup.Kill();
    if (victim == 3) backup.Wait();
    return running;
  }

  const std::string kerf_ = BuiltProgram("client/agent/kerf");
  const std::string kerfd_ = BuiltProgram("server/kerfd");
  Random random_{TestSeed()};
  std::string folder_;
  std::string socket_folder_;
  std::string tree_;
  std::string address_;
  int generation_ = 0;
  int run_count_ = 0;
  std::optional<Program> server_;
  std::chrono::microseconds longest_backup_{0};
};

TEST_F(CrashTest, AnyMoment) {
  const std::string wanted = Variable("KERF_CRASH_MOMENTS");
  const int moments = wanted.empty() ? kDefaultMoments : std::stoi(wanted);
  ASSERT_NO_FATAL_FAILURE(BackUpAndCheck(/*read_data=*/true));
  int struck = 0;
  int tries = 0;
  for (; struck < moments; ++tries) {
    ASSERT_LT(tries, 5 * moments) << "too few backups were running when they were to be killed";
    if (random_.OneIn(kMomentsPerStore)) {
      ASSERT_NO_FATAL_FAILURE(NewStore());
    }
    EditTree();
    Program backup = StartBackup();
    const auto length = static_cast<std::uint64_t>(longest_backup_.count());
    std::this_thread::sleep_for(std::chrono::microseconds(random_.Below(length)));
    struck += Strike(backup) ? 1 : 0;
    ASSERT_FALSE(HasFailure()) << "at try " << tries;
    ASSERT_NO_FATAL_FAILURE(BackUpAndCheck(random_.OneIn(8))) << "after try " << tries;
    if (const auto store = OpenStore(); store != nullptr) Duplicates(*store);
    ASSERT_FALSE(HasFailure()) << "after try " << tries;
  }
  std::printf("%d moments struck a running backup, in %d tries\n", struck, tries);
}

}  // namespace
}  // namespace kerf::e2e
