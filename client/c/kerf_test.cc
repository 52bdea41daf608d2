// The C functions with servers that a real kerfd is none of, and with arguments that no program
// should give. With real ones: e2e/c_client_test.cc.
#include "client/c/kerf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/c/error.h"

namespace kerf::c {
namespace {

using ::testing::HasSubstr;

constexpr char kProfile[] = "fastcdc2020:min=2048,avg=8192,max=32768,level=1";
constexpr std::uint8_t kPlace[] = {'p'};

// What a call has said; takes what it puts into error().
class Said {
 public:
  Said() = default;
  ~Said() { kerf_error_free(error_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  kerf_error** error() {
    kerf_error_free(error_);
    error_ = nullptr;
    return &error_;
  }
  std::string text() const { return kerf_error_message(error_); }
  std::string reason() const { return kerf_error_reason(error_); }
  std::string request_id() const { return kerf_error_request_id(error_); }
  kerf_code code() const { return kerf_error_code(error_); }

 private:
  kerf_error* error_ = nullptr;
};

// The options keep `server`: no temporary string may be given.
kerf_client_options ClientOptions(const char* server) {
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  options.servers = server;
  options.repository = "tests";
  return options;
}

class KerfTest : public testing::Test {
 protected:
  ~KerfTest() override {
    EXPECT_EQ(kerf_upload_free(upload_), KERF_OK);
    kerf_client_free(client_);
  }

  void Connect(client::FakeServer::Script script) {
    server_ = std::make_unique<client::FakeServer>(std::move(script));
    const std::string address = server_->address();
    kerf_client_options options = ClientOptions(address.c_str());
    options.retry_for_ms = 1;
    kerf_client_free(std::exchange(client_, nullptr));
    ASSERT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_OK) << said_.text();
  }

  kerf_upload_options UploadOptions() {
    kerf_upload_options options = KERF_UPLOAD_OPTIONS_INIT;
    options.profile = kProfile;
    options.store_epoch = 1;
    options.user = this;
    options.on_chunk = [](void* user, const kerf_chunk* chunk) {
      return static_cast<KerfTest*>(user)->OnChunk(*chunk);
    };
    options.on_commit = [](void* user, kerf_upload*) {
      return static_cast<KerfTest*>(user)->on_commit_();
    };
    options.on_recipe = [](void* user, const kerf_recipe*) {
      ++static_cast<KerfTest*>(user)->recipe_count_;
    };
    return options;
  }

  void Open(client::FakeServer::Script script) {
    Connect(std::move(script));
    const kerf_upload_options options = UploadOptions();
    ASSERT_EQ(kerf_upload_open(client_, &options, &upload_, said_.error()), KERF_OK)
        << said_.text();
  }

  kerf_code Send(std::size_t size_bytes) {
    left_bytes_ = size_bytes;
    return kerf_upload_send_file(
        upload_, nullptr,
        [](void* user, void* buffer, std::size_t size) {
          return static_cast<KerfTest*>(user)->Read(buffer, size);
        },
        this, said_.error());
  }
  kerf_code SendAndWait(std::size_t size_bytes) {
    const kerf_code code = Send(size_bytes);
    return code != KERF_OK ? code : kerf_upload_wait_answered(upload_, said_.error());
  }
  kerf_code Finish() { return kerf_upload_finish(upload_, said_.error()); }

  // All that is pending, at one place.
  int CommitAll() {
    std::vector<kerf_entry> entries;
    entries.reserve(waiting_.size());
    for (const auto& [digest, length] : waiting_) {
      entries.push_back({digest.data(), kPlace, sizeof kPlace, length});
    }
    const kerf_code code =
        kerf_upload_commit(upload_, entries.data(), entries.size(), said_.error());
    waiting_.clear();
    return code == KERF_OK ? 0 : 1;
  }
  kerf_code CommitOne(std::size_t index, std::uint32_t longer_bytes = 0) {
    const auto& [digest, length] = waiting_.at(index);
    const kerf_entry entry{digest.data(), kPlace, sizeof kPlace, length + longer_bytes};
    return kerf_upload_commit(upload_, &entry, 1, said_.error());
  }

  using Waiting = std::pair<std::array<std::uint8_t, 32>, std::uint32_t>;

  Said said_;
  std::unique_ptr<client::FakeServer> server_;
  kerf_client* client_ = nullptr;
  kerf_upload* upload_ = nullptr;
  std::vector<Waiting> waiting_;
  std::atomic<int> chunk_count_ = 0;
  std::atomic<int> recipe_count_ = 0;
  std::function<int(const kerf_chunk&)> on_chunk_ = [](const kerf_chunk&) { return 0; };
  std::function<int()> on_commit_ = [this] { return CommitAll(); };
  std::function<void()> on_read_ = [] {};

 private:
  int OnChunk(const kerf_chunk& chunk) {
    ++chunk_count_;
    Waiting waiting;
    std::memcpy(waiting.first.data(), chunk.digest, chunk.digest_size);
    waiting.second = chunk.length;
    if (chunk.verdict != KERF_DUPLICATE) waiting_.push_back(waiting);
    return on_chunk_(chunk);
  }
  std::int64_t Read(void* buffer, std::size_t size_bytes) {
    on_read_();
    const std::size_t count = std::min(size_bytes, left_bytes_);
    // Each chunk is another one.
    for (std::size_t index = 0; index < count; ++index) {
      const std::size_t place = left_bytes_ - index;
      static_cast<char*>(buffer)[index] = static_cast<char>(place % 251 + place / 4096);
    }
    left_bytes_ -= count;
    return static_cast<std::int64_t>(count);
  }

  std::size_t left_bytes_ = 0;
};

TEST_F(KerfTest, AFileIsUploaded) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
  EXPECT_EQ(chunk_count_, 25);
  EXPECT_EQ(recipe_count_, 1);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
  EXPECT_EQ(Finish(), KERF_WRONG_STATE);
  EXPECT_EQ(Send(1), KERF_WRONG_STATE);
  EXPECT_THAT(said_.text(), HasSubstr("has finished"));
}

TEST_F(KerfTest, WhatIsNotCommittedKeepsItFromItsEnd) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  on_commit_ = [this] { return CommitOne(0) == KERF_OK ? 0 : 1; };
  EXPECT_EQ(Finish(), KERF_WRONG_STATE);
  EXPECT_THAT(said_.text(), HasSubstr("24 chunks that are not committed"));
  on_commit_ = [this] { return CommitAll(); };
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

// COL-16: it is as good as NEW, and in the recipe.
TEST_F(KerfTest, WhatWasReportedStaleKeepsItFromItsEnd) {
  agent::CuttingServer server;
  server.verdict = v1::VERDICT_DUPLICATE;
  Open(server);
  std::vector<Waiting> duplicates;
  on_chunk_ = [&](const kerf_chunk& chunk) {
    Waiting& duplicate = duplicates.emplace_back();
    std::memcpy(duplicate.first.data(), chunk.digest, chunk.digest_size);
    duplicate.second = chunk.length;
    return 0;
  };
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  ASSERT_EQ(duplicates.size(), 25u);
  const kerf_entry stale[] = {
      {duplicates[0].first.data(), kPlace, sizeof kPlace, duplicates[0].second},
      {duplicates[1].first.data(), kPlace, sizeof kPlace, duplicates[1].second}};
  ASSERT_EQ(kerf_upload_report_stale(upload_, stale, 2, said_.error()), KERF_OK) << said_.text();
  ASSERT_EQ(kerf_upload_commit(upload_, stale, 1, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(Finish(), KERF_WRONG_STATE);
  EXPECT_THAT(said_.text(), HasSubstr("1 that were reported stale"));
  ASSERT_EQ(kerf_upload_commit(upload_, stale + 1, 1, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, WhatIsUnverifiedAndNotCommittedKeepsItToo) {
  agent::CuttingServer server;
  server.verdict = v1::VERDICT_UNVERIFIED;
  Open(server);
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  on_commit_ = [this] { return CommitOne(0) == KERF_OK ? 0 : 1; };
  EXPECT_EQ(Finish(), KERF_WRONG_STATE);
  EXPECT_THAT(said_.text(), HasSubstr("24 chunks that are not committed"));
  on_commit_ = [this] { return CommitAll(); };
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, ACommitOfNothingIsNotAskedForTwice) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  on_commit_ = [] { return 0; };
  EXPECT_EQ(Finish(), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("none of the 25"));
}

TEST_F(KerfTest, WhatIsCommittedIsLookedAtFirst) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  const std::array<std::uint8_t, 32> strange{1, 2, 3};
  const kerf_entry entries[] = {
      {waiting_[0].first.data(), kPlace, sizeof kPlace, waiting_[0].second},
      {strange.data(), kPlace, sizeof kPlace, 10}};
  EXPECT_EQ(kerf_upload_commit(upload_, entries, 2, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("010203"));
  kerf_totals totals = KERF_TOTALS_INIT;
  ASSERT_EQ(kerf_upload_totals_of(upload_, &totals, said_.error()), KERF_OK);
  EXPECT_EQ(totals.pending_count, 25u);
  EXPECT_EQ(totals.chunk_count, 25u);
  EXPECT_EQ(totals.file_count, 1u);
  EXPECT_EQ(CommitOne(0, 1), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("has 4096 bytes, and not 4097"));
  EXPECT_EQ(CommitOne(0), KERF_OK);
  // Once more is nothing.
  EXPECT_EQ(CommitOne(0), KERF_OK);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, EachAnswerOfOneChunkIsResolvedByOneCommit) {
  std::atomic<int> entry_count = 0;
  agent::CuttingServer server;
  server.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse&) {
    entry_count += frame.commit().entries_size();
  };
  Open(server);
  on_chunk_ = [this](const kerf_chunk&) {
    if (waiting_.size() > 1) waiting_.pop_back();
    return 0;
  };
  on_read_ = [] {};
  ASSERT_EQ(kerf_upload_begin_file(upload_, nullptr, said_.error()), KERF_OK);
  const std::string zeros(40'960, '\0');
  ASSERT_EQ(kerf_upload_write(upload_, zeros.data(), zeros.size(), said_.error()), KERF_OK);
  ASSERT_EQ(kerf_upload_end_file(upload_, said_.error()), KERF_OK);
  ASSERT_EQ(kerf_upload_wait_answered(upload_, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(chunk_count_, 10);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
  EXPECT_EQ(entry_count, 1);
}

TEST_F(KerfTest, AFalseDigestIsADisagreement) {
  agent::CuttingServer server;
  server.lie = [](const v1::UploadFrame&, v1::UploadResponse& response) {
    for (v1::UploadAnswer& answer : *response.mutable_answers()) {
      if (answer.has_chunks())
        (*answer.mutable_chunks()->mutable_chunks(3)->mutable_digest())[0] ^= 1;
    }
  };
  Open(server);
  EXPECT_EQ(SendAndWait(100'000), KERF_DISAGREEMENT);
  EXPECT_THAT(said_.text(), HasSubstr("not its fingerprint"));
  EXPECT_EQ(chunk_count_, 2 * 3) << "the file goes on through another stream, once (CLI-8)";
  EXPECT_EQ(recipe_count_, 0);
}

TEST_F(KerfTest, OneFalseDigestIsNone) {
  agent::CuttingServer server;
  std::atomic<bool> has_lied = false;
  server.lie = [&](const v1::UploadFrame&, v1::UploadResponse& response) {
    for (v1::UploadAnswer& answer : *response.mutable_answers()) {
      if (answer.has_chunks() && !has_lied.exchange(true))
        (*answer.mutable_chunks()->mutable_chunks(3)->mutable_digest())[0] ^= 1;
    }
  };
  Open(server);
  EXPECT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
  EXPECT_EQ(chunk_count_, 25) << "none twice";
  EXPECT_EQ(recipe_count_, 1);
}

TEST_F(KerfTest, AFalseCheckIsADisagreement) {
  agent::CuttingServer server;
  server.lie = [](const v1::UploadFrame&, v1::UploadResponse& response) {
    for (v1::UploadAnswer& answer : *response.mutable_answers()) {
      if (answer.has_chunks()) answer.mutable_chunks()->mutable_chunks(0)->set_check(7);
    }
  };
  Open(server);
  EXPECT_EQ(SendAndWait(100'000), KERF_DISAGREEMENT);
  EXPECT_EQ(chunk_count_, 0);
}

TEST_F(KerfTest, AVerdictThatNobodyKnowsIsNew) {
  agent::CuttingServer server;
  server.verdict = static_cast<v1::Verdict>(77);
  Open(server);
  on_chunk_ = [](const kerf_chunk& chunk) {
    return chunk.verdict == KERF_NEW && chunk.locator == nullptr && chunk.locator_size == 0 ? 0 : 9;
  };
  EXPECT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
}

TEST_F(KerfTest, AReasonOfTheServersIsTold) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) {
    return client::FakeServer::Refusal(grpc::StatusCode::PERMISSION_DENIED, "NOT_YOURS");
  });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_REFUSED);
  EXPECT_EQ(said_.reason(), "NOT_YOURS");
  EXPECT_EQ(Send(1), KERF_REFUSED);
}

TEST_F(KerfTest, AnEpochBehindIsToldByItsCode) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) {
    return client::FakeServer::Refusal(grpc::StatusCode::FAILED_PRECONDITION, "EPOCH_BEHIND");
  });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_EPOCH_BEHIND);
  EXPECT_EQ(said_.code(), KERF_EPOCH_BEHIND);
}

TEST_F(KerfTest, WhatMayPassIsRetryable) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) {
    return client::FakeServer::Refusal(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_RETRYABLE) << said_.text();
  EXPECT_EQ(said_.reason(), "DRAINING") << "what the last server has said";
  EXPECT_NE(said_.request_id(), "");
}

// CLI-16: it is not kerfd's, and nobody knows when it passes.
TEST_F(KerfTest, NoRoomWithoutAReasonIsRefused) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large");
  });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_REFUSED) << said_.text();
}

TEST_F(KerfTest, ACallbackThatFailsEndsTheUpload) {
  Open(agent::CuttingServer());
  on_chunk_ = [this](const kerf_chunk&) { return chunk_count_ == 3 ? 42 : 0; };
  EXPECT_EQ(SendAndWait(100'000), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("on_chunk has returned 42"));
  EXPECT_EQ(chunk_count_, 3);
  EXPECT_EQ(Finish(), KERF_CALLBACK_FAILED);
}

TEST_F(KerfTest, OfOnCommitToo) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  on_commit_ = [] { return -5; };
  EXPECT_EQ(Finish(), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("on_commit has returned -5"));
  // However it does from then on.
  on_commit_ = [this] { return CommitAll(); };
  EXPECT_EQ(Finish(), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("on_commit has returned -5"));
  EXPECT_EQ(kerf_upload_begin_file(upload_, nullptr, said_.error()), KERF_CALLBACK_FAILED);
  EXPECT_EQ(kerf_upload_wait_answered(upload_, said_.error()), KERF_CALLBACK_FAILED);
}

TEST_F(KerfTest, AlsoWhereAFileAsksForIt) {
  agent::CuttingServer server;
  server.opened.mutable_opened()->mutable_limits()->set_max_uncommitted_chunks(4096);
  Open(server);
  on_commit_ = [] { return -5; };
  // From half of what may be pending on it is asked for.
  ASSERT_EQ(SendAndWait(2048 * server.chunk_bytes), KERF_OK) << said_.text();
  EXPECT_EQ(Send(1), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("on_commit has returned -5"));
  // A program that takes that for a read that has failed.
  on_commit_ = [this] { return CommitAll(); };
  EXPECT_EQ(Send(1), KERF_CALLBACK_FAILED);
  EXPECT_EQ(Finish(), KERF_CALLBACK_FAILED);
  EXPECT_THAT(said_.text(), HasSubstr("on_commit has returned -5"));
}

TEST_F(KerfTest, AReadThatFailsEndsItsFileAlone) {
  Open(agent::CuttingServer());
  kerf_read broken = [](void*, void*, std::size_t) -> std::int64_t { return -3; };
  EXPECT_EQ(kerf_upload_send_file(upload_, nullptr, broken, nullptr, said_.error()),
            KERF_CALLBACK_FAILED);
  kerf_read too_much = [](void*, void*, std::size_t size) {
    return static_cast<std::int64_t>(size) + 1;
  };
  EXPECT_EQ(kerf_upload_send_file(upload_, nullptr, too_much, nullptr, said_.error()),
            KERF_CALLBACK_FAILED);
  EXPECT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
  EXPECT_EQ(recipe_count_, 1);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, CallbacksMayNotWait) {
  Open(agent::CuttingServer());
  std::vector<kerf_code> codes;
  on_chunk_ = [&](const kerf_chunk&) {
    if (codes.empty()) {
      codes = {kerf_upload_free(upload_),
               kerf_upload_finish(upload_, nullptr),
               kerf_upload_wait_answered(upload_, nullptr),
               kerf_upload_begin_file(upload_, nullptr, nullptr),
               kerf_upload_write(upload_, "x", 1, nullptr),
               kerf_upload_end_file(upload_, nullptr),
               kerf_upload_abandon_file(upload_, nullptr),
               kerf_upload_wait_opened(upload_, nullptr)};
    }
    return 0;
  };
  on_read_ = [&] { EXPECT_EQ(kerf_upload_free(upload_), KERF_WRONG_STATE); };
  EXPECT_EQ(SendAndWait(100'000), KERF_OK) << said_.text();
  EXPECT_EQ(codes, std::vector<kerf_code>(8, KERF_WRONG_STATE));
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, OneSendsAtATime) {
  Open(agent::CuttingServer());
  on_read_ = [&] {
    std::thread([&] {
      Said said;
      EXPECT_EQ(kerf_upload_wait_answered(upload_, said.error()), KERF_WRONG_STATE);
      EXPECT_THAT(said.text(), HasSubstr("another thread"));
    }).join();
  };
  EXPECT_EQ(SendAndWait(10'000), KERF_OK) << said_.text();
}

TEST_F(KerfTest, AnUploadThatIsLeftEndsAtOnce) {
  Open([](grpc::ServerContext& context, client::FakeServer::Stream&) {
    return client::FakeServer::StaySilent(context);
  });
  EXPECT_EQ(kerf_upload_free(upload_), KERF_OK);
  Connect(agent::CuttingServer());
  const kerf_upload_options options = UploadOptions();
  ASSERT_EQ(kerf_upload_open(client_, &options, &upload_, said_.error()), KERF_OK);
  ASSERT_EQ(kerf_upload_begin_file(upload_, nullptr, said_.error()), KERF_OK);
  ASSERT_EQ(kerf_upload_write(upload_, "x", 1, said_.error()), KERF_OK);
}

TEST_F(KerfTest, WhoIsSilentIsLost) {
  server_ = std::make_unique<client::FakeServer>(
      [](grpc::ServerContext& context, client::FakeServer::Stream&) {
        return client::FakeServer::StaySilent(context);
      });
  const std::string address = server_->address();
  kerf_client_options options = ClientOptions(address.c_str());
  options.retry_for_ms = 1;
  options.silence_ms = 200;
  ASSERT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_OK);
  const kerf_upload_options upload = UploadOptions();
  ASSERT_EQ(kerf_upload_open(client_, &upload, &upload_, said_.error()), KERF_OK);
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_RETRYABLE);
  EXPECT_THAT(said_.text(), HasSubstr("silent"));
}

TEST_F(KerfTest, StaleChunksHaveALimit) {
  Open(agent::CuttingServer());
  ASSERT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_OK);
  std::vector<std::array<std::uint8_t, 32>> digests(2049);
  std::vector<kerf_entry> entries;
  for (std::size_t index = 0; index < digests.size(); ++index) {
    std::memcpy(digests[index].data(), &index, sizeof index);
    entries.push_back({digests[index].data(), kPlace, sizeof kPlace, 5});
  }
  EXPECT_EQ(kerf_upload_report_stale(upload_, entries.data(), 2049, said_.error()),
            KERF_WRONG_STATE);
  EXPECT_EQ(kerf_upload_report_stale(upload_, entries.data(), 2048, said_.error()), KERF_OK);
  kerf_totals totals = KERF_TOTALS_INIT;
  ASSERT_EQ(kerf_upload_totals_of(upload_, &totals, said_.error()), KERF_OK);
  EXPECT_EQ(totals.reported_count, 2048u);
  // They may be committed, and then others reported.
  EXPECT_EQ(kerf_upload_commit(upload_, entries.data(), 2048, said_.error()), KERF_OK);
  EXPECT_EQ(kerf_upload_report_stale(upload_, entries.data() + 2048, 1, said_.error()), KERF_OK);
}

// Arguments.

TEST_F(KerfTest, WhatIsMissingIsAnError) {
  kerf_client_options options = ClientOptions("127.0.0.1:1");
  EXPECT_EQ(kerf_client_open(nullptr, &client_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_open(&options, nullptr, said_.error()), KERF_BAD_ARGUMENT);
  for (const char* repository : {"", "a b", "a/b", "\xc3\xa4"}) {
    options.repository = repository;
    EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
    EXPECT_EQ(client_, nullptr);
  }
  const std::string long_name(65, 'a');
  options.repository = long_name.c_str();
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  options.repository = nullptr;
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  options.repository = "tests";
  for (const char* servers : {"", "nonsense", "127.0.0.1:0", "127.0.0.1:1,,"}) {
    options.servers = servers;
    EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT) << servers;
  }
  options.servers = nullptr;
  options.digest = static_cast<kerf_digest>(99);
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  options.digest = KERF_DIGEST_DEFAULT;
  options.token_file = "/nonexistent/token";
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("/nonexistent/token"));
  options.token_file = nullptr;
  options.ca_file = "/nonexistent/ca";
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("/nonexistent/ca"));
  options.ca_file = nullptr;
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_OK) << said_.text();
}

TEST_F(KerfTest, OfAnUploadToo) {
  Connect(agent::CuttingServer());
  kerf_upload_options options = UploadOptions();
  const auto open = [&] { return kerf_upload_open(client_, &options, &upload_, said_.error()); };
  EXPECT_EQ(kerf_upload_open(nullptr, &options, &upload_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_open(client_, nullptr, &upload_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_open(client_, &options, nullptr, said_.error()), KERF_BAD_ARGUMENT);
  options.on_chunk = nullptr;
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  options = UploadOptions();
  options.on_commit = nullptr;
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  options = UploadOptions();
  options.store_epoch = 0;
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  options = UploadOptions();
  options.profile = "nonsense";
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("nonsense"));
  options = UploadOptions();
  options.cut = static_cast<kerf_cut>(3);
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  options = UploadOptions();
  const std::string long_agent(129, 'a');
  options.agent = long_agent.c_str();
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  EXPECT_EQ(upload_, nullptr);
}

TEST_F(KerfTest, OfAFileAndItsEntriesToo) {
  Open(agent::CuttingServer());
  ASSERT_EQ(SendAndWait(100'000), KERF_OK);
  EXPECT_EQ(kerf_upload_send_file(upload_, nullptr, nullptr, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  kerf_file_options file = KERF_FILE_OPTIONS_INIT;
  file.key_size = 1;
  EXPECT_EQ(kerf_upload_begin_file(upload_, &file, said_.error()), KERF_BAD_ARGUMENT);
  const std::string long_key(4097, 'k');
  file.key = long_key.data();
  file.key_size = 4097;
  EXPECT_EQ(kerf_upload_begin_file(upload_, &file, said_.error()), KERF_BAD_ARGUMENT);
  file.key_size = 4096;
  EXPECT_EQ(kerf_upload_begin_file(upload_, &file, said_.error()), KERF_OK) << said_.text();
  EXPECT_EQ(kerf_upload_write(upload_, nullptr, 1, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_end_file(upload_, said_.error()), KERF_OK);
  const std::uint8_t* digest = waiting_[0].first.data();
  const std::uint8_t locator[65] = {};
  for (const kerf_entry& bad :
       {kerf_entry{nullptr, kPlace, 1, 4096}, kerf_entry{digest, nullptr, 1, 4096},
        kerf_entry{digest, kPlace, 0, 4096}, kerf_entry{digest, locator, 65, 4096},
        kerf_entry{digest, kPlace, 1, 0}}) {
    EXPECT_EQ(kerf_upload_commit(upload_, &bad, 1, said_.error()), KERF_BAD_ARGUMENT);
    EXPECT_EQ(kerf_upload_report_stale(upload_, &bad, 1, said_.error()), KERF_BAD_ARGUMENT);
    EXPECT_EQ(kerf_client_commit(client_, 1, &bad, 1, said_.error()), KERF_BAD_ARGUMENT);
  }
  EXPECT_EQ(kerf_upload_commit(upload_, nullptr, 1, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_commit(upload_, nullptr, 0, said_.error()), KERF_OK);
  EXPECT_EQ(kerf_upload_totals_of(upload_, nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(Finish(), KERF_OK) << said_.text();
}

TEST_F(KerfTest, NoHandleIsAnErrorOrNothing) {
  kerf_totals totals = KERF_TOTALS_INIT;
  kerf_lookup_answer answer;
  kerf_read read = [](void*, void*, std::size_t) { return std::int64_t{0}; };
  EXPECT_EQ(kerf_upload_wait_opened(nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_send_file(nullptr, nullptr, read, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_begin_file(nullptr, nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_write(nullptr, "x", 1, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_end_file(nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_abandon_file(nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_wait_answered(nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_finish(nullptr, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_commit(nullptr, nullptr, 0, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_report_stale(nullptr, nullptr, 0, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_upload_totals_of(nullptr, &totals, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_lookup(nullptr, 1, kPlace, 1, &answer, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_commit(nullptr, 1, nullptr, 0, said_.error()), KERF_BAD_ARGUMENT);
  // Nobody has to read it.
  EXPECT_EQ(kerf_client_commit(nullptr, 1, nullptr, 0, nullptr), KERF_BAD_ARGUMENT);
  kerf_upload_cancel(nullptr);
  kerf_client_cancel(nullptr);
  kerf_client_free(nullptr);
  EXPECT_EQ(kerf_upload_free(nullptr), KERF_OK);
  kerf_error_free(nullptr);
  EXPECT_EQ(kerf_error_code(nullptr), KERF_OK);
  EXPECT_STREQ(kerf_error_message(nullptr), "");
  EXPECT_STREQ(kerf_error_reason(nullptr), "");
  EXPECT_STREQ(kerf_error_request_id(nullptr), "");
}

TEST_F(KerfTest, LookupsHaveArgumentsToo) {
  Connect(agent::CuttingServer());
  kerf_lookup_answer answer;
  const std::uint8_t digest[32] = {};
  EXPECT_EQ(kerf_client_lookup(client_, 0, digest, 1, &answer, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_lookup(client_, 1, nullptr, 1, &answer, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_lookup(client_, 1, digest, 1, nullptr, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_client_lookup(client_, 1, digest, SIZE_MAX, &answer, nullptr, said_.error()),
            KERF_BAD_ARGUMENT);
  std::uint64_t epoch = 7;
  EXPECT_EQ(kerf_client_lookup(client_, 1, nullptr, 0, nullptr, &epoch, said_.error()), KERF_OK);
  EXPECT_EQ(epoch, 0u);
  EXPECT_EQ(kerf_client_commit(client_, 0, nullptr, 0, said_.error()), KERF_BAD_ARGUMENT);
  // There is no Index service there.
  EXPECT_EQ(kerf_client_lookup(client_, 1, digest, 1, &answer, nullptr, said_.error()),
            KERF_REFUSED);
}

TEST_F(KerfTest, StructsMayGrow) {
  struct Larger {
    kerf_client_options known;
    std::uint64_t unknown[4];
  } larger = {ClientOptions("127.0.0.1:1"), {}};
  larger.known.struct_size = sizeof larger;
  EXPECT_EQ(kerf_client_open(&larger.known, &client_, said_.error()), KERF_OK) << said_.text();
  kerf_client_free(std::exchange(client_, nullptr));
  larger.unknown[2] = 1;
  EXPECT_EQ(kerf_client_open(&larger.known, &client_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("older than the header"));
  larger.known.struct_size = sizeof larger.known - 1;
  EXPECT_EQ(kerf_client_open(&larger.known, &client_, said_.error()), KERF_BAD_ARGUMENT);
  larger.known.struct_size = SIZE_MAX;
  EXPECT_EQ(kerf_client_open(&larger.known, &client_, said_.error()), KERF_BAD_ARGUMENT);
  larger.known.struct_size = 0;
  EXPECT_EQ(kerf_client_open(&larger.known, &client_, said_.error()), KERF_BAD_ARGUMENT);
}

// Padding behind the last member has any bytes, and the next one that is added would stand there.
TEST_F(KerfTest, NothingStandsBehindTheLastMember) {
  EXPECT_EQ(offsetof(kerf_client_options, reserved) + sizeof(std::int32_t),
            sizeof(kerf_client_options));
  EXPECT_EQ(offsetof(kerf_upload_options, on_notice) + sizeof(void*), sizeof(kerf_upload_options));
  EXPECT_EQ(offsetof(kerf_file_options, user) + sizeof(void*), sizeof(kerf_file_options));
  EXPECT_EQ(offsetof(kerf_chunk, locator_size) + sizeof(std::size_t), sizeof(kerf_chunk));
  EXPECT_EQ(offsetof(kerf_recipe, chunk_count) + sizeof(std::size_t), sizeof(kerf_recipe));
  EXPECT_EQ(offsetof(kerf_totals, cut_here_count) + sizeof(std::uint64_t), sizeof(kerf_totals));
  kerf_client_options options = ClientOptions("127.0.0.1:1");
  options.reserved = 1;
  EXPECT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("reserved"));
}

TEST_F(KerfTest, ATokenIsNotShownInTheClear) {
  const std::string path = testing::TempDir() + "/kerf_c_token";
  FILE* const file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  EXPECT_GT(fputs("secret\n", file), 0);
  EXPECT_EQ(fclose(file), 0);
  kerf_client_options options = ClientOptions("127.0.0.1:1");
  options.token_file = path.c_str();
  ASSERT_EQ(kerf_client_open(&options, &client_, said_.error()), KERF_OK) << said_.text();
  const kerf_upload_options upload = UploadOptions();
  ASSERT_EQ(kerf_upload_open(client_, &upload, &upload_, said_.error()), KERF_OK);
  EXPECT_NE(kerf_upload_wait_opened(upload_, said_.error()), KERF_OK);
  EXPECT_THAT(said_.text(), HasSubstr("in the clear"));
}

// Who looks at the error alone must not take what was thrown for a call that went well.
TEST(GuardTest, WhateverIsThrownIsAnErrorToo) {
  Said said;
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(Guard(said.error(), []() -> absl::Status { throw std::bad_alloc(); }),
              KERF_NO_MEMORY);
    EXPECT_EQ(said.code(), KERF_NO_MEMORY);
    EXPECT_EQ(said.text(), "no memory left");
  }
  EXPECT_EQ(Guard(said.error(), []() -> absl::Status { throw std::runtime_error("odd"); }),
            KERF_UNEXPECTED);
  EXPECT_EQ(said.code(), KERF_UNEXPECTED);
  EXPECT_EQ(said.text(), "odd");
  EXPECT_EQ(Guard(said.error(),
                  []() -> absl::Status {
                    throw 7; /* NOLINT(bugprone-std-exception-baseclass) */
                  }),
            KERF_UNEXPECTED);
  EXPECT_EQ(said.code(), KERF_UNEXPECTED);
  EXPECT_EQ(Guard(nullptr, []() -> absl::Status { throw std::bad_alloc(); }), KERF_NO_MEMORY);
}

TEST(FingerprintTest, AsItsPageSaysIt) {
  std::uint8_t digest[32];
  Said said;
  EXPECT_EQ(kerf_digest_of(KERF_SHA256, "abc", 3, digest, said.error()), KERF_OK);
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[31], 0xad);
  std::memset(digest, 0xff, sizeof digest);
  EXPECT_EQ(kerf_digest_of(KERF_XXH3_128, nullptr, 0, digest, said.error()), KERF_OK);
  EXPECT_EQ(digest[16], 0);
  EXPECT_EQ(digest[0], 0x99);
  EXPECT_EQ(kerf_digest_of(KERF_BLAKE3, nullptr, 1, digest, said.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_digest_of(KERF_BLAKE3, "", 0, nullptr, said.error()), KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_digest_of(static_cast<kerf_digest>(-1), "", 0, digest, said.error()),
            KERF_BAD_ARGUMENT);
  EXPECT_EQ(kerf_digest_size(KERF_DIGEST_DEFAULT), 32u);
  EXPECT_EQ(kerf_digest_size(KERF_XXH3_128), 16u);
  EXPECT_EQ(kerf_digest_size(static_cast<kerf_digest>(9)), 0u);
}

TEST(VersionTest, IsThatOfKerf) {
  EXPECT_EQ(kerf_abi_version(), static_cast<std::uint32_t>(KERF_ABI_VERSION));
  EXPECT_THAT(kerf_version(), testing::StartsWith("0."));
  EXPECT_STREQ(kerf_code_name(KERF_EPOCH_BEHIND), "KERF_EPOCH_BEHIND");
  EXPECT_STREQ(kerf_code_name(static_cast<kerf_code>(1000)), "?");
}

}  // namespace
}  // namespace kerf::c
