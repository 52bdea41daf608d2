// Memory that is not to be had, on each of the threads of an upload: it ends, and the process goes
// on. What a callback throws here stands for what the library may throw at that place; a program's
// own callbacks throw nothing.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "client/agent/backup/testing/cutting_server.h"
#include "client/c/kerf.h"
#include "client/c/testing/kerf_fixture.h"
#include "client/cpp/testing/fake_server.h"

namespace kerf::c {
namespace {

void FindNoMemory() { throw std::bad_alloc(); }

class NoMemoryTest : public KerfTest {
 protected:
  // Whatever is called from here on: what was under way may be missing from what comes behind.
  void ExpectEnded() {
    EXPECT_EQ(kerf_upload_begin_file(upload_, nullptr, said_.error()), KERF_NO_MEMORY);
    EXPECT_EQ(said_.code(), KERF_NO_MEMORY);
    EXPECT_EQ(Send(1), KERF_NO_MEMORY) << said_.text();
    EXPECT_EQ(Finish(), KERF_NO_MEMORY) << said_.text();
  }
};

TEST_F(NoMemoryTest, OnTheThreadOfAnswers) {
  Open(agent::CuttingServer());
  on_chunk_ = [this](const kerf_chunk&) {
    if (chunk_count_ == 3) FindNoMemory();
    return 0;
  };
  EXPECT_EQ(SendAndWait(100'000), KERF_NO_MEMORY) << said_.text();
  EXPECT_EQ(chunk_count_, 3);
  EXPECT_EQ(recipe_count_, 0);
  ExpectEnded();
}

TEST_F(NoMemoryTest, WhereAFileIsDone) {
  Open(agent::CuttingServer());
  on_recipe_ = FindNoMemory;
  EXPECT_EQ(SendAndWait(100'000), KERF_NO_MEMORY) << said_.text();
  ExpectEnded();
}

TEST_F(NoMemoryTest, OnTheThreadThatOpensStreams) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) {
    return client::FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  });
  on_notice_ = FindNoMemory;
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_NO_MEMORY) << said_.text();
  ExpectEnded();
}

TEST_F(NoMemoryTest, InTheMiddleOfAFileThatIsSent) {
  Open(agent::CuttingServer());
  on_read_ = FindNoMemory;
  EXPECT_EQ(Send(100'000), KERF_NO_MEMORY) << said_.text();
  on_read_ = [] {};
  ExpectEnded();
  EXPECT_EQ(recipe_count_, 0);
}

TEST_F(NoMemoryTest, OnTheThreadThatSendsWhatIsWritten) {
  agent::CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_uncommitted_chunks(4096);
  Open(server);
  // From half of what may be pending on the next file asks for commits. Of two files: this server
  // cuts one at its end, and no more is sent ahead than may become pending.
  ASSERT_EQ(SendAndWait(1024 * server.chunk_bytes), KERF_OK) << said_.text();
  ASSERT_EQ(SendAndWait(1024 * server.chunk_bytes), KERF_OK) << said_.text();
  on_commit_ = [] {
    FindNoMemory();
    return 0;
  };
  ASSERT_EQ(kerf_upload_begin_file(upload_, nullptr, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(kerf_upload_end_file(upload_, said_.error()), KERF_NO_MEMORY) << said_.text();
  ExpectEnded();
}

// A callback that does not look at what it was told does not make it undone.
TEST_F(NoMemoryTest, InACommit) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
  on_commit_ = [] {
    FindNoMemory();
    return 0;
  };
  EXPECT_EQ(Finish(), KERF_NO_MEMORY) << said_.text();
  on_commit_ = [this] { return CommitAll(); };
  ExpectEnded();
}

TEST_F(NoMemoryTest, ABugEndsItToo) {
  Open(agent::CuttingServer());
  on_read_ = [] { throw std::logic_error("odd"); };
  EXPECT_EQ(Send(100'000), KERF_UNEXPECTED);
  EXPECT_EQ(said_.text(), "odd");
  on_read_ = [] {};
  EXPECT_EQ(Send(1), KERF_UNEXPECTED);
  EXPECT_EQ(Finish(), KERF_UNEXPECTED);
}

}  // namespace
}  // namespace kerf::c
