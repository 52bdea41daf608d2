// The C functions with servers that a real kerfd is none of. With real ones: e2e/c_client_test.cc.
#include "client/c/kerf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/agent/backup/testing/cutting_server.h"
#include "client/c/testing/kerf_fixture.h"
#include "client/cpp/testing/fake_server.h"

namespace kerf::c {
namespace {

using ::testing::HasSubstr;

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

// CLI-14, CLI-39: whoever has read it, or what is between the two, is faulty.
TEST_F(KerfTest, WhatTwiceIsNotWhatWasReadIsRefused) {
  std::atomic<int> opens = 0;
  Open([&opens](grpc::ServerContext&, client::FakeServer::Stream&) {
    ++opens;
    return client::FakeServer::Refusal(grpc::StatusCode::DATA_LOSS, "CONTENT_MISMATCH");
  });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_REFUSED) << said_.text();
  EXPECT_EQ(said_.reason(), "CONTENT_MISMATCH");
  EXPECT_EQ(opens, 2) << "once more";
}

// CLI-16: nobody here has cancelled anything.
TEST_F(KerfTest, AConnectionThatBrokeIsNotCancelled) {
  Open([](grpc::ServerContext&, client::FakeServer::Stream&) { return grpc::Status::CANCELLED; });
  EXPECT_EQ(kerf_upload_wait_opened(upload_, said_.error()), KERF_RETRYABLE) << said_.text();
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
  // From half of what may be pending on it is asked for. Of two files: this server cuts one at its
  // end, and no more is sent ahead than may become pending.
  ASSERT_EQ(SendAndWait(1024 * server.chunk_bytes), KERF_OK) << said_.text();
  ASSERT_EQ(SendAndWait(1024 * server.chunk_bytes), KERF_OK) << said_.text();
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
  // A file may have one chunk many times: it is reported once.
  EXPECT_EQ(kerf_upload_report_stale(upload_, entries.data(), 2048, said_.error()), KERF_OK);
  const std::vector<kerf_entry> same(3000, entries[0]);
  EXPECT_EQ(kerf_upload_report_stale(upload_, same.data(), same.size(), said_.error()), KERF_OK);
  ASSERT_EQ(kerf_upload_totals_of(upload_, &totals, said_.error()), KERF_OK);
  EXPECT_EQ(totals.reported_count, 2048u);
  // They may be committed, and then others reported.
  EXPECT_EQ(kerf_upload_commit(upload_, entries.data(), 2048, said_.error()), KERF_OK);
  EXPECT_EQ(kerf_upload_report_stale(upload_, entries.data() + 2048, 1, said_.error()), KERF_OK);
}

}  // namespace
}  // namespace kerf::c
