// kerf repo: what an operator does with the repositories of a kerfd, and a repository whose epoch
// somebody has taken as far as he was let.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/cpp/channel.h"
#include "e2e/world.h"
#include "grpcpp/client_context.h"
#include "kerf/v1/index.grpc.pb.h"

namespace kerf::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kOk = 0;
constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kAuthentication = 4;

class RepoTest : public testing::Test {
 protected:
  RepoTest() : tree_(world_ / "tree") {
    std::filesystem::create_directory(tree_);
    for (const char* name : {"one", "two"}) AddFile(name);
  }

  void AddFile(const std::string& name) {
    std::string content(2'000'000, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/" + name, content);
  }

  nlohmann::json BackupAll() { return world_.Backup({tree_, "--force"}); }
  std::string StoreName() {
    return world_.KerfJson({"stats"}).Only("summary")["repository"].get<std::string>();
  }
  // Each with a + if it was created.
  std::vector<std::string> List() {
    std::vector<std::string> names;
    for (const nlohmann::json& one : world_.KerfJson({"repo", "list"}).Of("repository")) {
      names.push_back(one["repository"].get<std::string>() +
                      (one["is_created"].get<bool>() ? "+" : ""));
    }
    return names;
  }
  nlohmann::json Repo(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "repo");
    const JsonRun run = world_.KerfJson(arguments);
    EXPECT_EQ(run.exit_code, kOk) << arguments[1];
    return run.Only("summary");
  }
  bool Advance(const std::string& repository, std::uint64_t epoch) {
    // The socket's path is relative to the folder of the world.
    std::filesystem::current_path(world_.path());
    const auto stub = v1::IndexService::NewStub(*client::OpenChannel({world_.address()}));
    v1::AdvanceEpochRequest request;
    request.mutable_repository()->set_repository(repository);
    request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    request.set_store_epoch(epoch);
    grpc::ClientContext context;
    v1::AdvanceEpochResponse response;
    return stub->AdvanceEpoch(&context, request, &response).ok();
  }

  World world_;
  const std::string tree_;
  Random random_{TestSeed()};
};

TEST_F(RepoTest, OnlyWhatWasCreatedIsServed) {
  world_.StartServer({"--repositories", "created"});
  world_.SetEnvironment("KERF_SERVER", world_.address());
  ASSERT_EQ(world_.Kerf({"init"}).exit_code, kOk);
  const Completed refused = world_.Kerf({"backup", tree_});
  EXPECT_EQ(refused.exit_code, kAuthentication) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("there is no such repository"));
  EXPECT_THAT(List(), IsEmpty());

  EXPECT_EQ(Repo({"create", "--store", world_.store()})["is_new"], true);
  EXPECT_EQ(Repo({"create", "--store", world_.store()})["is_new"], false);
  BackupAll();
  EXPECT_THAT(List(), ElementsAre(StoreName() + "+"));
  // It is remembered.
  world_.StopServer();
  world_.StartServer({"--repositories", "created"});
  world_.ExpectNothingNew(BackupAll());
  const nlohmann::json stats = Repo({"stats", StoreName()});
  EXPECT_GT(stats["index_entries"].get<int>(), 0);
  EXPECT_EQ(stats["index_epoch"], 0);

  EXPECT_EQ(Repo({"drop", "--store", world_.store(), "--yes"})["dropped_entries"],
            stats["index_entries"]);
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_EQ(world_.Kerf({"backup", tree_, "--force"}).exit_code, kAuthentication);
  EXPECT_EQ(world_.Kerf({"index", "stats"}).exit_code, kAuthentication);
  // The store is as it was, and is told again.
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
  Repo({"create", StoreName()});
  EXPECT_EQ(world_.Kerf({"index", "rebuild"}).exit_code, kOk);
  world_.ExpectNothingNew(BackupAll());
}

TEST_F(RepoTest, DropsNothingThatNobodyWants) {
  world_.StartServer();
  BackupAll();
  EXPECT_EQ(world_.Kerf({"repo", "drop", StoreName()}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"repo", "drop"}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"repo", "drop", "one", "--store", world_.store()}).exit_code, kUsage);
  EXPECT_EQ(world_.Kerf({"repo", "reset-epoch", "one"}).exit_code, kUsage);
  EXPECT_EQ(
      world_.Kerf({"repo", "reset-epoch", "--store", world_.store(), "--epoch", "1"}).exit_code,
      kUsage);
  // One of another digest algorithm is another one.
  EXPECT_EQ(Repo({"drop", StoreName(), "--digest", "sha256", "--yes"})["dropped_entries"], 0);
  EXPECT_THAT(List(), ElementsAre(StoreName()));
}

TEST_F(RepoTest, ANameHasOneDigestAlgorithm) {
  world_.StartServer();
  EXPECT_EQ(Repo({"create", "one"})["is_new"], true);
  const Completed refused = world_.Kerf({"repo", "create", "one", "--digest", "sha256"});
  EXPECT_NE(refused.exit_code, kOk);
  EXPECT_THAT(refused.err, HasSubstr("kerf repo drop one --digest blake3"));
  Repo({"drop", "one", "--yes"});
  EXPECT_EQ(Repo({"create", "one", "--digest", "sha256"})["is_new"], true);
  EXPECT_EQ(Repo({"create", "two"})["is_new"], true);
}

// Through a front, which knows nothing of these calls.
TEST_F(RepoTest, AFrontPassesThemOn) {
  world_.StartServer();
  BackupAll();
  const auto front = world_.StartKerfd("front", {"--role", "front", "--workers", world_.address()});
  ASSERT_NE(front, nullptr);
  world_.SetEnvironment("KERF_SERVER", World::AddressOf("front"));
  EXPECT_EQ(Repo({"create", "other"})["is_new"], true);
  EXPECT_THAT(List(), testing::UnorderedElementsAre(StoreName(), "other+"));
  EXPECT_GT(Repo({"drop", StoreName(), "--yes"})["dropped_entries"].get<int>(), 0);
  EXPECT_EQ(Repo({"reset-epoch", "other", "--epoch", "7"})["index_epoch"], 7);
  EXPECT_EQ(Repo({"stats", "other"})["index_epoch"], 7);
}

// The attack of whoever may collect: hundreds of calls, each as far as it is let.
TEST_F(RepoTest, ARepositoryThatHasRunAwayIsMended) {
  world_.StartServer();
  BackupAll();
  ASSERT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
  const std::string name = StoreName();
  const auto epoch_now = [&] { return Repo({"stats", name})["index_epoch"].get<std::uint64_t>(); };
  std::uint64_t epoch = epoch_now();
  const std::uint64_t store_epoch = epoch;
  int raised_count = 0;
  for (int call = 0; call < 600; ++call) {
    // As far as any call may, or as little as one can.
    for (const std::uint64_t step : {std::uint64_t{1} << 32, std::uint64_t{1} << 20}) {
      if (!Advance(name, epoch + step)) continue;
      epoch += step;
      ++raised_count;
    }
  }
  EXPECT_LE(raised_count, 2);
  EXPECT_EQ(epoch_now(), epoch);
  EXPECT_GT(epoch, store_epoch);
  // A store does not follow an index in a backup: what is new the index does not take.
  const auto entry_count = [&] { return Repo({"stats", name})["index_entries"].get<int>(); };
  const int count_before = entry_count();
  AddFile("late");
  const Completed late = world_.Kerf({"backup", tree_, "--force"});
  EXPECT_THAT(late.err, HasSubstr("index")) << late.exit_code << late.out;
  EXPECT_EQ(entry_count(), count_before);

  EXPECT_EQ(Repo({"reset-epoch", "--store", world_.store()})["index_epoch"], store_epoch - 1);
  AddFile("three");
  // What was there is not stored twice, and all is there.
  const nlohmann::json backup = BackupAll();
  EXPECT_LT(backup["new_bytes"].get<int>(), 4'500'000);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
  // The next collection makes the index whole: it is believed, and knows the store.
  const Completed collected = world_.Kerf({"gc"});
  EXPECT_EQ(collected.exit_code, kOk) << collected.err;
  EXPECT_EQ(world_.Kerf({"index", "check"}).exit_code, kOk);
  world_.ExpectNothingNew(BackupAll());
}

TEST_F(RepoTest, AServerThatIsNotThereAndANameThatIsNone) {
  EXPECT_EQ(world_.Kerf({"repo", "list", "--server", "unix:none.sock"}).exit_code, 5);
  EXPECT_EQ(world_.Kerf({"repo", "create", "not a name", "--server", "unix:none.sock"}).exit_code,
            5);
  world_.StartServer();
  const Completed refused = world_.Kerf({"repo", "create", "not a name"});
  EXPECT_EQ(refused.exit_code, kFailure);
  EXPECT_THAT(refused.err, HasSubstr("[A-Za-z0-9._-]"));
}

}  // namespace
}  // namespace kerf::e2e
