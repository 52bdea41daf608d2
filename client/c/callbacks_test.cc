// Callbacks that call back, also into another upload than their own.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "client/agent/backup/testing/cutting_server.h"
#include "client/c/kerf.h"
#include "client/c/testing/kerf_fixture.h"

namespace kerf::c {
namespace {

// An upload beside that of the fixture.
class CallbacksTest : public KerfTest {
 protected:
  ~CallbacksTest() override { EXPECT_EQ(kerf_upload_free(other_), KERF_OK); }

  void OpenOther() {
    kerf_upload_options options = UploadOptions();
    options.name = "other";
    options.user = this;
    options.on_chunk = [](void* user, const kerf_chunk*) {
      return static_cast<CallbacksTest*>(user)->on_other_chunk_();
    };
    options.on_commit = [](void* user, kerf_upload*) {
      return static_cast<CallbacksTest*>(user)->on_other_commit_();
    };
    options.on_recipe = nullptr;
    ASSERT_EQ(kerf_upload_open(client_, &options, &other_, said_.error()), KERF_OK) << said_.text();
  }
  void SendThroughOther() {
    EXPECT_EQ(kerf_upload_begin_file(other_, nullptr, nullptr), KERF_OK);
    EXPECT_EQ(kerf_upload_write(other_, "bytes", 5, nullptr), KERF_OK);
    EXPECT_EQ(kerf_upload_end_file(other_, nullptr), KERF_OK);
  }
  // All that would wait for the fixture's upload.
  std::vector<kerf_code> WaitForFirst() {
    return {kerf_upload_free(upload_),
            kerf_upload_finish(upload_, nullptr),
            kerf_upload_wait_answered(upload_, nullptr),
            kerf_upload_begin_file(upload_, nullptr, nullptr),
            kerf_upload_write(upload_, "x", 1, nullptr),
            kerf_upload_end_file(upload_, nullptr),
            kerf_upload_abandon_file(upload_, nullptr),
            kerf_upload_wait_opened(upload_, nullptr)};
  }

  const std::vector<kerf_code> all_wrong_ = std::vector<kerf_code>(8, KERF_WRONG_STATE);
  kerf_upload* other_ = nullptr;
  std::function<int()> on_other_chunk_ = [] { return 0; };
  std::function<int()> on_other_commit_ = [] { return 0; };
};

// It runs on a thread of the other upload's, for which the first one's waits.
TEST_F(CallbacksTest, OneThatACallbackWaitsForMayNotWaitForItsUpload) {
  Open(agent::CuttingServer());
  OpenOther();
  std::vector<kerf_code> codes;
  on_other_chunk_ = [&] {
    codes = WaitForFirst();
    // What waits for nobody it may call.
    EXPECT_EQ(kerf_upload_commit(upload_, nullptr, 0, nullptr), KERF_OK);
    return 0;
  };
  on_chunk_ = [&](const kerf_chunk&) {
    if (chunk_count_ > 1) return 0;
    SendThroughOther();
    EXPECT_EQ(kerf_upload_wait_answered(other_, nullptr), KERF_OK);
    return 0;
  };
  EXPECT_EQ(SendAndWait(10'000), KERF_OK) << said_.text();
  EXPECT_EQ(codes, all_wrong_);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

// It runs on the first one's thread.
TEST_F(CallbacksTest, OneThatRunsWithinACallbackMayNotEither) {
  Open(agent::CuttingServer());
  OpenOther();
  std::vector<kerf_code> codes;
  on_other_commit_ = [&] {
    codes = WaitForFirst();
    EXPECT_EQ(kerf_upload_free(other_), KERF_WRONG_STATE);
    return -1;
  };
  on_chunk_ = [&](const kerf_chunk&) {
    if (chunk_count_ > 1) return 0;
    SendThroughOther();
    EXPECT_EQ(kerf_upload_finish(other_, nullptr), KERF_CALLBACK_FAILED);
    return 0;
  };
  EXPECT_EQ(SendAndWait(10'000), KERF_OK) << said_.text();
  EXPECT_EQ(codes, all_wrong_);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

// What a callback has begun, and waits for no more, is no part of it.
TEST_F(CallbacksTest, OneThatIsWaitedForByNobodyMay) {
  Open(agent::CuttingServer());
  OpenOther();
  kerf_code code = KERF_UNEXPECTED;
  on_other_chunk_ = [&] {
    code = kerf_upload_wait_opened(upload_, nullptr);
    return 0;
  };
  ASSERT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_OK) << said_.text();
  SendThroughOther();
  EXPECT_EQ(kerf_upload_wait_answered(other_, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(code, KERF_OK);
}

}  // namespace
}  // namespace kerf::c
