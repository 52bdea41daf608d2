// A kerfd that is told to stop: what open streams learn, how soon it ends, and that they go on at
// the next one without a difference.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {
namespace {

// A drain that no test waits for.
constexpr const char* kNever = "80000000";

std::optional<v1::GoAway> GoAwayOf(TestUpload& upload) {
  const auto answer = upload.WaitForAnswer(&v1::UploadAnswer::has_go_away);
  return answer.has_value() ? std::optional(answer->go_away()) : std::nullopt;
}

class DrainTest : public testing::Test {
 protected:
  // On the same data each time.
  void Start(const std::string& drain_ms) {
    world_.StartServer({"--listen", "127.0.0.1:0", "--drain-ms", drain_ms});
    if (!HasFatalFailure()) channel_ = ConnectTo(world_.last_address());
  }
  void Begin(TestUpload& upload) {
    ASSERT_TRUE(upload.SendOpen(open_));
    ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_opened));
  }
  void BeginFile(TestUpload& upload) {
    Begin(upload);
    ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.mutable_file_begin(); }));
  }
  static void ExpectDraining(TestUpload& upload) {
    const grpc::Status status = upload.WaitForEnd();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "DRAINING");
  }

  // A server that begins now takes the rest of the file; with `recipe`, what the one before
  // answered, it is whole.
  void ExpectRestAt(std::uint64_t resume_bytes, const std::string& content,
                    std::vector<RecipeChunk> recipe) {
    const std::vector<RecipeChunk> whole = PlainRecipe(content, open_);
    TestUpload resumed(channel_);
    Begin(resumed);
    ASSERT_TRUE(
        resumed.SendFile(std::string_view(content).substr(resume_bytes), 100'000, resume_bytes));
    // The first half is in the index, and what was not committed is not.
    ASSERT_TRUE(resumed.SendFile(content, 100'000));
    resumed.WritesDone();
    EXPECT_TRUE(resumed.WaitForEnd().ok());
    // What was answered after the last commit was looked at is not durable.
    std::erase_if(recipe,
                  [&](const RecipeChunk& chunk) { return chunk.end_offset > resume_bytes; });
    const std::vector<RecipeChunk> rest = resumed.RecipeOf(1);
    recipe.insert(recipe.end(), rest.begin(), rest.end());
    EXPECT_EQ(recipe, whole);
    EXPECT_EQ(resumed.RecipeOf(2), whole);
    for (const v1::Chunk& chunk : resumed.ChunksOf(2)) {
      EXPECT_EQ(chunk.verdict(),
                chunk.end_offset() <= resume_bytes ? v1::VERDICT_DUPLICATE : v1::VERDICT_NEW)
          << chunk.end_offset();
    }
  }

  World world_;
  const v1::Open open_ = OpenFor("home");
  std::shared_ptr<grpc::Channel> channel_;
};

// A terminal that is closed, a shell that ends: neither now nor while it drains.
TEST_F(DrainTest, AHangupEndsNothing) {
  Start(kNever);
  ASSERT_FALSE(HasFatalFailure());
  TestUpload upload(channel_);
  BeginFile(upload);
  ASSERT_FALSE(HasFatalFailure());
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.set_data("some data"); }));
  world_.server().Signal(SIGHUP);
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) { frame.set_data(" and more"); }));
  ASSERT_TRUE(upload.SendFrame([](v1::UploadFrame& frame) {
    frame.mutable_file_end()->set_size_bytes(18);
    frame.mutable_file_end()->set_content_hash(ContentHashOf("some data and more"));
  }));
  ASSERT_TRUE(upload.WaitForChunks(1, 18));
  // It comes before the drain's end; the stream goes on for its commit.
  world_.server().Signal(SIGTERM);
  ASSERT_TRUE(GoAwayOf(upload).has_value());
  world_.server().Signal(SIGHUP);
  ASSERT_TRUE(upload.CommitAnswered());
  ASSERT_TRUE(upload.WaitForAnswer(&v1::UploadAnswer::has_committed));
  upload.WritesDone();
  ExpectDraining(upload);
  const Completed end = world_.server().Wait();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_NE(end.err.find("SIGHUP: kerfd follows no files"), std::string::npos) << end.err;
  EXPECT_EQ(end.err.find("second signal"), std::string::npos) << end.err;
}

TEST_F(DrainTest, StreamsGoOnAtTheNextServer) {
  Start(kNever);
  ASSERT_FALSE(HasFatalFailure());
  std::string content(3'000'000, '\0');
  Random(2).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});

  // One between files, one in mid-file, and one in mid-file of which some is committed.
  TestUpload idle(channel_);
  Begin(idle);
  TestUpload uncommitted(channel_);
  BeginFile(uncommitted);
  TestUpload upload(channel_);
  BeginFile(upload);
  ASSERT_FALSE(HasFatalFailure());
  const auto send_data = [&](TestUpload& to, std::size_t begin, std::size_t end) {
    return to.SendFrame(
        [&](v1::UploadFrame& frame) { frame.set_data(content.substr(begin, end - begin)); });
  };
  const auto durable_bytes = [](const std::optional<v1::UploadAnswer>& answer) {
    return answer.has_value() ? answer->committed().files(0).durable_offset() : 0;
  };
  ASSERT_TRUE(send_data(uncommitted, 0, 500'000));
  ASSERT_TRUE(uncommitted.WaitForChunks(1, 1));
  ASSERT_TRUE(send_data(upload, 0, 1'000'000));
  ASSERT_TRUE(upload.WaitForChunks(1, 500'000));
  ASSERT_TRUE(upload.CommitAnswered());
  const std::uint64_t before_bytes =
      durable_bytes(upload.WaitForAnswer(&v1::UploadAnswer::has_committed));
  EXPECT_GE(before_bytes, 500'000u);
  ASSERT_TRUE(send_data(upload, 1'000'000, 2'000'000));
  ASSERT_TRUE(upload.WaitForChunks(1, 1'500'000));
  // The signal may overtake this.
  ASSERT_TRUE(send_data(upload, 2'000'000, 2'500'000));

  world_.server().Signal(SIGTERM);
  for (TestUpload* stream : {&idle, &uncommitted, &upload}) {
    const std::optional<v1::GoAway> go_away = GoAwayOf(*stream);
    ASSERT_TRUE(go_away.has_value());
    EXPECT_EQ(go_away->drain_ms(), 80'000'000u);
    ASSERT_EQ(go_away->files_size(), stream == &upload ? 1 : 0);
    if (stream != &upload) continue;
    EXPECT_EQ(go_away->files(0).file_number(), 1u);
    EXPECT_EQ(go_away->files(0).durable_offset(), before_bytes);
  }
  {
    TestUpload refused(channel_);
    ExpectDraining(refused);
  }
  // What was answered may still be committed.
  ASSERT_TRUE(upload.CommitAnswered());
  const std::uint64_t resume_bytes =
      durable_bytes(upload.WaitForAnswer(&v1::UploadAnswer::has_committed, 2));
  EXPECT_GE(resume_bytes, 1'500'000u);
  for (TestUpload* stream : {&idle, &uncommitted, &upload}) {
    stream->WritesDone();
    ExpectDraining(*stream);
  }
  // Its last stream has ended: it does not wait for the rest of the day.
  EXPECT_EQ(world_.server().Wait().exit_code, 0);

  Start(kNever);
  ASSERT_FALSE(HasFatalFailure());
  ExpectRestAt(resume_bytes, content, upload.RecipeOf(1));
}

TEST_F(DrainTest, SecondSignalEndsAtOnce) {
  for (const int second : {SIGTERM, SIGINT}) {
    Start(kNever);
    ASSERT_FALSE(HasFatalFailure());
    TestUpload idle(channel_);
    Begin(idle);
    TestUpload in_file(channel_);
    BeginFile(in_file);
    world_.server().Signal(SIGTERM);
    ASSERT_TRUE(GoAwayOf(idle).has_value());
    ASSERT_TRUE(GoAwayOf(in_file).has_value());
    EXPECT_FALSE(world_.server().HasEnded());
    world_.server().Signal(second);
    EXPECT_EQ(world_.server().Wait().exit_code, 0);
    ExpectDraining(idle);
    ExpectDraining(in_file);
  }
}

TEST_F(DrainTest, WhoNeverReadsHoldsItUpForTheDrainOnly) {
  Start("200");
  ASSERT_FALSE(HasFatalFailure());
  TestUpload upload(channel_, /*read=*/false);
  ASSERT_TRUE(upload.SendOpen(OpenFor("home", "fastcdc2020:min=512,avg=2048,max=8192,level=1")));
  std::string content(1'000'000, '\0');
  Random(3).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  std::atomic<int> sent_count{0};
  std::thread writer([&] {
    while (upload.SendFile(content, 200'000)) ++sent_count;
  });
  // Until nothing moves any more.
  for (int last_count = -1; sent_count.load() == 0 || sent_count.load() != last_count;) {
    last_count = sent_count.load();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  // Another one sees when the server has gone so far, and behaves.
  TestUpload other(channel_);
  Begin(other);
  world_.server().Signal(SIGTERM);
  EXPECT_TRUE(GoAwayOf(other).has_value());
  other.WritesDone();
  ExpectDraining(other);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(world_.server().Wait().exit_code, 0);
  // Long before the stream is ended for not reading, after 60 s.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  upload.Cancel();
  writer.join();
  EXPECT_FALSE(upload.WaitForEnd().ok());
}

TEST_F(DrainTest, WithoutStreamsItEndsAtOnce) {
  Start(kNever);
  ASSERT_FALSE(HasFatalFailure());
  world_.server().Signal(SIGINT);
  EXPECT_EQ(world_.server().Wait().exit_code, 0);
}

}  // namespace
}  // namespace kerf::e2e
