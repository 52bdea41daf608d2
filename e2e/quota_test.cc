// What an identity may have at most: kerfd --access.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "e2e/identities.h"
#include "e2e/round_trip.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kGreedyStreams = 48;
constexpr char kAccess[] = R"([[identity]]
name = "kerf://greedy"
max_streams = 48
max_connections = 3
[[identity.grant]]
role = "write"
repositories = ["greedy"]
[[identity]]
name = "kerf://honest"
[[identity.grant]]
role = "write"
repositories = ["honest"]
)";

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() { identities_.StartServer(kAccess); }

  std::shared_ptr<grpc::Channel> Connect(const std::string& name) {
    return identities_.Connect(name);
  }

  World world_;
  const Identities identities_{world_};
};

TEST_F(QuotaTest, MoreStreamsThanAnIdentityMayHaveAreRefused) {
  const auto greedy = Connect("greedy");
  std::vector<std::unique_ptr<TestUpload>> open;
  for (int count = 0; count < kGreedyStreams; ++count) {
    open.push_back(std::make_unique<TestUpload>(greedy));
    ASSERT_TRUE(open.back()->SendOpen(OpenFor("greedy")));
    ASSERT_TRUE(open.back()->WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  }
  TestUpload one_more(greedy);
  const grpc::Status status = one_more.WaitForEnd();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("kerf://greedy"));
  TestUpload other(Connect("honest"));
  ASSERT_TRUE(other.SendOpen(OpenFor("honest")));
  EXPECT_TRUE(other.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
  // A place that is free again is his.
  open.pop_back();
  const auto until = steady_clock::now() + seconds(20);
  bool is_let_in = false;
  while (!is_let_in && steady_clock::now() < until) {
    TestUpload again(greedy);
    is_let_in = again.SendOpen(OpenFor("greedy")) &&
                again.WaitForAnswer(&v1::UploadAnswer::has_opened).has_value();
  }
  EXPECT_TRUE(is_let_in);
}

// Of others as many as they like. A channel is a connection, for none is shared here.
TEST_F(QuotaTest, MoreConnectionsThanAnIdentityMayHaveAreToldToGo) {
  const auto ask = [](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(30));
    v1::GetCapabilitiesResponse response;
    return v1::ChunkingService::NewStub(channel)->GetCapabilities(&context, {}, &response);
  };
  std::vector<std::shared_ptr<grpc::Channel>> open;
  for (int count = 0; count < 3; ++count) {
    open.push_back(Connect("greedy"));
    ASSERT_TRUE(ask(open.back()).ok());
  }
  const grpc::Status status = ask(Connect("greedy"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "QUOTA_EXCEEDED");
  for (const auto& channel : open) EXPECT_TRUE(ask(channel).ok());
  std::vector<std::shared_ptr<grpc::Channel>> others;
  for (int count = 0; count < 8; ++count) {
    others.push_back(Connect("honest"));
    EXPECT_TRUE(ask(others.back()).ok());
  }
  // One that is closed makes room.
  open.pop_back();
  const auto until = steady_clock::now() + seconds(20);
  bool is_let_in = false;
  while (!is_let_in && steady_clock::now() < until) is_let_in = ask(Connect("greedy")).ok();
  EXPECT_TRUE(is_let_in);
}

// kerf beside quotas, as the user of this test.
class KerfQuotaTest : public ::testing::Test {
 protected:
  void Start(const std::string& identity, const std::string& repositories) {
    WriteTlsFile(
        world_ / "access.toml",
        Cat("[[identity]]\nname = \"user/", getuid(), "\"\n", identity,
            "[[identity.grant]]\nrole = \"admin\"\nrepositories = [\"*\"]\n", repositories));
    world_.StartServer({"--access", world_ / "access.toml"});
  }
  // New bytes of each seed.
  void WriteFile(const std::string& name, std::uint64_t seed, std::size_t size_bytes) {
    Random random(seed);
    std::string content(size_bytes, '\0');
    random.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteTlsFile(world_ / name, content);
  }

  World world_;
};

TEST_F(KerfQuotaTest, ABackupTakesItsTimeAndIsWhole) {
  Start("max_bytes_per_second = 2_000_000\nmax_calls_per_second = 1\n", "");
  WriteFile("file", 1, 9'000'000);
  const auto began = steady_clock::now();
  const nlohmann::json summary = world_.Backup({"file", "--streams", "4"});
  // What a second is good for comes at once.
  EXPECT_GE(steady_clock::now() - began, seconds(3));
  EXPECT_EQ(summary["index_warning"], "");
  EXPECT_EQ(summary["warnings"], 0);
  // Each asks for more than one call of the index: they wait for their turns.
  EXPECT_EQ(world_.Kerf({"index", "check"}).exit_code, 0);
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, 0);
  EXPECT_EQ(world_.Kerf({"index", "check"}).exit_code, 0);
  // Or do not, if they were told so; what was begun is gone on with.
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"gc"}, {"index", "rebuild"}}) {
    std::vector<std::string> hasty = verb;
    hasty.insert(hasty.end(), {"--retry-for", "0"});
    // A machine that is slow enough makes each wait for its turn by itself.
    constexpr int kMaxAttempts = 10;
    Completed refused = world_.Kerf(hasty);
    for (int count = 1; count < kMaxAttempts && refused.exit_code == 0; ++count) {
      refused = world_.Kerf(hasty);
    }
    EXPECT_NE(refused.exit_code, 0) << verb[0];
    EXPECT_THAT(refused.err, ::testing::HasSubstr("calls of the index a second")) << verb[0];
    EXPECT_EQ(world_.Kerf(verb).exit_code, 0) << verb[0];
  }
}

TEST_F(KerfQuotaTest, AFullRepositoryIsSaidAndWhatItKnowsGoesOn) {
  Start("", "[[repository]]\nname = \"*\"\nmax_entries = 120\n");
  WriteFile("first", 2, 600'000);
  EXPECT_EQ(world_.Backup({"first"})["index_warning"], "");
  WriteFile("second", 3, 3'000'000);
  const nlohmann::json full = world_.Backup({"first", "second"}, 3);
  EXPECT_THAT(std::string(full["index_warning"]), ::testing::HasSubstr("at most 120 entries"));
  const nlohmann::json quota =
      world_.KerfJson({"repo", "quota", "--store", world_.store()}).Only("summary");
  EXPECT_EQ(quota["max_entries"], 120);
  EXPECT_EQ(quota["max_streams"], nullptr);
  EXPECT_LE(quota["index_entries"], 120);
  EXPECT_GT(quota["index_entries"], 0);
  const Completed text = world_.Kerf({"repo", "quota", "--store", world_.store()});
  EXPECT_THAT(text.out, ::testing::HasSubstr(" of 120"));
  EXPECT_EQ(world_.Backup({"first", "--force"})["index_warning"], "");
  // What the index has no room for does not hold up those who tell it of everything.
  EXPECT_EQ(world_.Kerf({"verify"}).exit_code, 0);
  const Completed rebuilt = world_.Kerf({"index", "rebuild"});
  EXPECT_EQ(rebuilt.exit_code, 3);
  EXPECT_THAT(rebuilt.err, ::testing::HasSubstr("no room for all that the store holds"));
  // A pack is rewritten of which the index knows nothing.
  std::filesystem::create_directory(world_ / "tree");
  WriteFile("tree/live", 5, 3'000'000);
  WriteFile("tree/dead", 6, 1'000'000);
  world_.Backup({"tree"}, 3);
  std::filesystem::remove(world_ / "tree/dead");
  world_.Backup({"tree", "--force"}, 3);
  EXPECT_EQ(world_.Kerf({"forget", "--keep-last", "1"}).exit_code, 0);
  EXPECT_EQ(world_.Kerf({"gc", "--keep-forgotten", "0s", "--max-waste", "0"}).exit_code, 3);
  EXPECT_EQ(world_.Kerf({"verify"}).exit_code, 0);
}

// A pack that is sealed in the middle of a backup tells the index of it then: no reason to end.
TEST_F(KerfQuotaTest, ALargeBackupIntoAFullRepositoryIsWhole) {
  Start("", "[[repository]]\nname = \"*\"\nmax_entries = 120\n");
  WriteFile("large", 4, 150'000'000);
  const nlohmann::json full = world_.Backup({"large"}, 3);
  EXPECT_THAT(std::string(full["index_warning"]), ::testing::HasSubstr("at most 120 entries"));
  EXPECT_EQ(full["warnings"], 0);
  EXPECT_EQ(world_.Kerf({"verify"}).exit_code, 0);
}

}  // namespace
}  // namespace kerf::e2e
