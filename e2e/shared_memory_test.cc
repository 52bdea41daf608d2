// Backups to a kerfd of this machine, over memory that both see: whatever becomes of it, what comes
// out is what went in, and the snapshot is the one that the socket would have made.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/cpp/resuming_upload.h"
#include "client/cpp/retry.h"
#include "client/cpp/upload_stream.h"
#include "e2e/http.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kLargeBytes = std::size_t{40} << 20;
// Of a pack that is being written.
constexpr std::uintmax_t kMuch = 1 << 20;

class SharedMemoryTest : public RoundTrip {
 protected:
  SharedMemoryTest() {
    std::filesystem::create_directory(tree_);
    Random random(TestSeed());
    for (int index = 0; index < 200; ++index) {
      WriteText(Cat(tree_, "/small-", index), RandomText(random, random.Below(40'000)));
    }
    // More than all blocks of a stream hold.
    WriteText(tree_ + "/large", RandomText(random, kLargeBytes));
    WriteText(tree_ + "/empty", "");
  }

  static std::string RandomText(Random& random, std::size_t size_bytes) {
    std::string text(size_bytes, '\0');
    random.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }
  nlohmann::json BackupInto(const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.begin(), {tree_, "--store", world_ / name, "--cut", "remote"});
    return world_.Backup(std::move(flags));
  }
  // Something has come out of the first stream, and the backup is not over.
  bool HasStored(Program& backup) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < until && !backup.HasEnded()) {
      for (const char* const folder : {"/tmp", "/packs"}) {
        std::error_code ignored;
        for (const auto& file :
             std::filesystem::recursive_directory_iterator(world_.store() + folder, ignored)) {
          if (file.is_regular_file(ignored) && file.file_size(ignored) > kMuch) return true;
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // Also what was sent again: a stream by which something came that was not what was sent is the
  // last one that shares.
  static void ExpectAllShared(const Completed& end) {
    EXPECT_EQ(end.exit_code, kOk) << end.out << end.err;
    std::istringstream lines(end.out);
    nlohmann::json summary;
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json message = nlohmann::json::parse(line);
      if (message["message_type"] == "summary") summary = std::move(message);
    }
    EXPECT_GE(summary["resumes"], 1) << end.out;
    EXPECT_EQ(summary["shared_memory_streams"], summary["streams"]) << end.out;
  }
  void ExpectWhole(const std::string& name) {
    EXPECT_EQ(world_.KerfJson({"restore", "latest", "--target", target_, "--store", world_ / name})
                  .exit_code,
              kOk);
    ExpectRestored(tree_);
    std::filesystem::remove_all(target_);
    EXPECT_EQ(world_.KerfJson({"verify", "--read-data", "--store", world_ / name}).exit_code, kOk);
  }
};

TEST_F(SharedMemoryTest, TheSnapshotIsTheSame) {
  const nlohmann::json shared = BackupInto("one", {});
  EXPECT_GT(shared["shared_memory_streams"], 0);
  EXPECT_EQ(shared["shared_memory_streams"], shared["streams"]);
  const nlohmann::json sent = BackupInto("other", {"--shared-memory", "off"});
  EXPECT_EQ(sent["shared_memory_streams"], 0);
  // Of files: the folders above are other tests', too.
  for (const auto& [all, metadata] : {std::pair("new_chunks", "new_metadata_chunks"),
                                      std::pair("new_bytes", "new_metadata_bytes")}) {
    EXPECT_EQ(std::int64_t{shared[all]} - std::int64_t{shared[metadata]},
              std::int64_t{sent[all]} - std::int64_t{sent[metadata]})
        << all;
  }
  ExpectWhole("one");
  // The other way round nothing is new either.
  world_.ExpectNothingNew(world_.Backup({tree_, "--force", "--store", world_ / "other"}));
  world_.ExpectNothingNew(
      world_.Backup({tree_, "--force", "--store", world_ / "one", "--shared-memory", "off"}));
}

TEST_F(SharedMemoryTest, ChunksAreLongerThanBlocks) {
  const nlohmann::json shared =
      BackupInto("one", {"--profile", "fastcdc:min=65536,avg=262144,max=1048576,level=2"});
  EXPECT_GT(shared["shared_memory_streams"], 0);
  ExpectWhole("one");
}

// What the agent cuts itself needs no memory.
TEST_F(SharedMemoryTest, WhoCutsHimselfSharesNone) {
  const nlohmann::json cut = world_.Backup({tree_, "--cut", "local"});
  EXPECT_EQ(cut["shared_memory_streams"], 0);
  EXPECT_GT(cut["local_cut_streams"], 0);
}

TEST_F(SharedMemoryTest, OverTcpNoneIsOffered) {
  world_.StartServer({"--listen", "127.0.0.1:0"});
  ASSERT_FALSE(HasFatalFailure());
  const nlohmann::json sent = BackupInto("one", {"--server", world_.last_address()});
  EXPECT_EQ(sent["shared_memory_streams"], 0);
  ExpectWhole("one");
}

// Where callers are asked who they are there is a door, which takes none, and says so before
// anybody offers any: nobody is turned away for it.
TEST_F(SharedMemoryTest, WhereCallersAreAskedNoneIsOffered) {
  WriteText(world_ / "access.toml",
            Cat("[[identity]]\nname = \"user/", getuid(),
                "\"\n[[identity.grant]]\nrole = \"admin\"\nrepositories = [\"*\"]\n"));
  world_.StartServer({"--access", world_ / "access.toml", "--metrics-listen", "127.0.0.1:0",
                      "--metrics-ready-file", world_ / "server/metrics.ready"});
  if (HasFatalFailure()) return;
  const nlohmann::json sent = BackupInto("one", {});
  EXPECT_EQ(sent["shared_memory_streams"], 0);
  const HttpAnswer metrics =
      GetHttp(ReadText(world_ / "server/metrics.ready"), "/metrics", std::chrono::seconds(30));
  EXPECT_THAT(metrics.body,
              HasSubstr("\nkerf_door_connections_ended_total{reason=\"not_http2\"} 0\n"));
  ExpectWhole("one");
}

// A front's socket takes none; its worker's word of it is not the front's.
TEST_F(SharedMemoryTest, ThroughAFrontBytesGoOverTheStream) {
  const auto front = world_.StartKerfd("front", {"--role", "front", "--workers", world_.address()});
  if (front == nullptr) return;
  const nlohmann::json sent = BackupInto("one", {"--server", World::AddressOf("front")});
  EXPECT_EQ(sent["shared_memory_streams"], 0);
  ExpectWhole("one");
}

// kerfd is killed again and again in the middle of files, and comes back at the same socket: with
// memory that it has never seen.
TEST_F(SharedMemoryTest, KilledServersLoseNothing) {
  Random random(TestSeed());
  const auto backup = world_.Start(
      {"backup", tree_, "--cut", "remote", "--json", "--compression", "max", "--retry-for", "60s"});
  ASSERT_TRUE(HasStored(*backup));
  for (int turn = 0; turn < 3 && !backup->HasEnded(); ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random.Between(10, 300)));
    world_.server().Signal(SIGKILL);
    world_.StartServer();
    ASSERT_FALSE(HasFatalFailure());
  }
  ExpectAllShared(backup->Wait());
  ExpectWhole("store");
}

TEST_F(SharedMemoryTest, AStopInTheMiddleIsGoneOnFrom) {
  const auto backup = world_.Start(
      {"backup", tree_, "--cut", "remote", "--json", "--compression", "max", "--retry-for", "60s"});
  ASSERT_TRUE(HasStored(*backup));
  world_.StopServer();
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  ExpectAllShared(backup->Wait());
  ExpectWhole("store");
}

// How far its file is answered.
class Answers final : public client::AnswerHandler {
 public:
  void OnAnswer(const v1::UploadAnswer& answer) override {
    if (answer.chunks().chunks().empty()) return;
    answered_bytes = answer.chunks().chunks().rbegin()->end_offset();
  }
  void OnEnd(const absl::Status& /*status*/) override {}

  std::atomic<std::uint64_t> answered_bytes = 0;
};

// Here the server alone has seen other bytes: the next stream is sent those that were read.
TEST_F(SharedMemoryTest, BehindAStreamThatWasSentOtherBytesByItNoneIsShared) {
  // The socket's path is relative to the folder of the world.
  std::filesystem::current_path(world_.path());
  client::ResumingUpload::Options options;
  options.stream.open.set_repository("home");
  options.stream.open.set_profile("fastcdc2020-8k");
  options.stream.open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  options.stream.open.set_store_epoch(1);
  options.servers = {world_.address()};
  options.retry.first_wait = std::chrono::milliseconds(1);
  std::atomic<int> opened_count = 0;
  std::atomic<int> shared_count = 0;
  options.on_opened = [&](bool /*is_direct*/) { ++opened_count; };
  options.on_shared = [&] { ++shared_count; };
  std::vector<std::string> losses;
  std::uint8_t* changed = nullptr;
  options.on_lost = [&](const client::ResumingUpload::Lost& lost) {
    losses.push_back(client::ReasonOfLoss(lost.status));
    if (changed != nullptr) *changed = 7;
  };
  Answers answers;
  client::ResumingUpload upload(std::move(options), answers);
  constexpr std::size_t kFileBytes = 10'000;
  upload.BeginFile("file", kFileBytes);
  const std::span<std::uint8_t> span = upload.DataSpan();
  ASSERT_GE(span.size(), kFileBytes);
  std::fill_n(span.data(), kFileBytes, std::uint8_t{7});
  const client::DataRef data = upload.CommitData(kFileBytes);
  // Now they are in the content's hash, and the server has not been told of them.
  ASSERT_FALSE(upload.DataSpan().empty());
  ASSERT_EQ(shared_count, 1);
  changed = data.block->data() + data.position;
  *changed = 8;
  upload.EndFile(kFileBytes);
  upload.Flush();
  upload.FinishWrites();
  const absl::Status end = upload.Wait();
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(losses, std::vector<std::string>{"CONTENT_MISMATCH"});
  EXPECT_EQ(opened_count, 2);
  EXPECT_EQ(shared_count, 1);
  EXPECT_EQ(answers.answered_bytes, kFileBytes);
}

}  // namespace
}  // namespace kerf::e2e
