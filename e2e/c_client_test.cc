// Programs in C with a real kerfd: client/c/testing/scenarios.c, with the library within it.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "e2e/world.h"
#include "kerf/v1/index.grpc.pb.h"

namespace kerf::e2e {
namespace {

using ::testing::HasSubstr;

class CClientTest : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::string& name,
                                   const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {BuiltProgram("client/c/scenarios"), world_.address(), name};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  // What it has printed.
  std::string Play(const std::string& name, const std::vector<std::string>& arguments) {
    const Completed done = world_.StartOther(Command(name, arguments))->Wait();
    EXPECT_EQ(done.exit_code, 0) << name << ": " << done.err;
    return done.out;
  }

  // Waits until the scenario has come so far.
  void Meet(const std::string& name) {
    for (int tries = 0; !std::filesystem::exists(world_ / name); ++tries) {
      ASSERT_LT(tries, 3000) << name;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  static std::string RandomText() {
    std::vector<std::uint8_t> bytes(6'000'000);
    Random(TestSeed()).Fill(bytes);
    return {bytes.begin(), bytes.end()};
  }

  World world_;
};

TEST_F(CClientTest, AnUploadIsKnownTheSecondTime) {
  world_.StartServer();
  WriteText(world_ / "file", RandomText());
  for (const std::string digest : {"0", "2", "3"}) {
    const std::string repository = Cat("repository-", digest);
    const std::string first = Play("upload", {repository, digest, "1", "file", "pull"});
    EXPECT_THAT(first, HasSubstr(" duplicate 0 unverified 0"));
    for (const std::string way : {"pull", "push", "here"}) {
      EXPECT_THAT(Play("upload", {repository, digest, "1", "file", way}),
                  testing::StartsWith("new 0 duplicate "));
    }
    EXPECT_THAT(Play("upload", {repository, digest, "2", "file", "push"}),
                HasSubstr("new 0 duplicate 0 unverified "));
  }
}

TEST_F(CClientTest, MemoryIsSharedUnlessTheProgramWantsNone) {
  world_.StartServer();
  WriteText(world_ / "file", RandomText());
  for (const auto& [way, count] :
       {std::pair("pull", 1), std::pair("push", 1), std::pair("apart", 0), std::pair("here", 0)}) {
    EXPECT_THAT(Play("upload", {Cat("repository-", way), "1", "1", "file", way}),
                testing::EndsWith(Cat(" shared ", count, "\n")))
        << way;
  }
}

TEST_F(CClientTest, SmallFilesAndThoseWithoutEnd) {
  world_.StartServer();
  Play("small_files", {"small"});
}

TEST_F(CClientTest, CommitsAreAskedForInTime) {
  world_.StartServer();
  Play("pressure", {"pressure"});
}

TEST_F(CClientTest, StaleChunksAndLookups) {
  world_.StartServer();
  Play("stale", {"stale"});
}

TEST_F(CClientTest, AnotherThreadCancels) {
  world_.StartServer();
  Play("cancel", {"cancel"});
}

TEST_F(CClientTest, ErrorsHaveCodesAndReasons) {
  world_.StartServer();
  Play("errors", {"errors"});
}

TEST_F(CClientTest, AnUploadOutlivesAServerThatIsKilled) {
  world_.StartServer();
  const auto program = world_.StartOther(Command("lost", {"killed", "20000000", world_.path()}));
  Meet("half");
  world_.server().Kill();
  world_.StartServer();
  WriteText(world_ / "go", "");
  const Completed done = program->Wait();
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

TEST_F(CClientTest, AnUploadOutlivesAServerThatDrains) {
  world_.StartServer();
  const auto program = world_.StartOther(Command("lost", {"drained", "20000000", world_.path()}));
  Meet("half");
  world_.StopServer();
  world_.StartServer();
  WriteText(world_ / "go", "");
  const Completed done = program->Wait();
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

TEST_F(CClientTest, AnEpochThatRisesIsHeeded) {
  world_.StartServer({"--listen", "127.0.0.1:0"});
  const auto program = world_.StartOther(Command("epoch", {"risen", world_.path()}));
  Meet("open");
  const auto stub = v1::IndexService::NewStub(
      grpc::CreateChannel(world_.last_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::AdvanceEpochRequest request;
  request.mutable_repository()->set_repository("risen");
  request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  request.set_store_epoch(2);
  v1::AdvanceEpochResponse response;
  const grpc::Status status = stub->AdvanceEpoch(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  WriteText(world_ / "raised", "");
  const Completed done = program->Wait();
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

TEST_F(CClientTest, WhatKerfHasBackedUpIsKnown) {
  world_.StartServer();
  const nlohmann::json store = world_.KerfJson({"init"}).Only("summary");
  std::filesystem::create_directory(world_ / "data");
  WriteText(world_ / "data/file", RandomText());
  world_.Backup({"data"});
  EXPECT_THAT(Play("upload", {store["repository"], "1", "1", "data/file", "pull"}),
              testing::StartsWith("new 0 duplicate "));
}

}  // namespace
}  // namespace kerf::e2e
