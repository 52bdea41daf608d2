// The C functions with arguments that no program should give, and what of them needs no server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/c/error.h"
#include "client/c/kerf.h"
#include "client/c/testing/kerf_fixture.h"

namespace kerf::c {
namespace {

using ::testing::HasSubstr;

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
  options.agent = "host \xff";
  EXPECT_EQ(open(), KERF_BAD_ARGUMENT);
  EXPECT_THAT(said_.text(), HasSubstr("UTF-8"));
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
  EXPECT_EQ(offsetof(kerf_client_options, no_shared_memory) + sizeof(std::int32_t),
            sizeof(kerf_client_options));
  EXPECT_EQ(offsetof(kerf_upload_options, on_notice) + sizeof(void*), sizeof(kerf_upload_options));
  EXPECT_EQ(offsetof(kerf_file_options, user) + sizeof(void*), sizeof(kerf_file_options));
  EXPECT_EQ(offsetof(kerf_chunk, locator_size) + sizeof(std::size_t), sizeof(kerf_chunk));
  EXPECT_EQ(offsetof(kerf_recipe, chunk_count) + sizeof(std::size_t), sizeof(kerf_recipe));
  EXPECT_EQ(offsetof(kerf_totals, shared_count) + sizeof(std::uint64_t), sizeof(kerf_totals));
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
