// An upload of kerf.h with a server that a test makes up, and callbacks that it may change.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/c/kerf.h"
#include "client/cpp/testing/fake_server.h"

namespace kerf::c {

inline constexpr char kProfile[] = "fastcdc2020:min=2048,avg=8192,max=32768,level=1";
inline constexpr std::uint8_t kPlace[] = {'p'};

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
inline kerf_client_options ClientOptions(const char* server) {
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
      auto* const test = static_cast<KerfTest*>(user);
      ++test->recipe_count_;
      test->on_recipe_();
    };
    options.on_notice = [](void* user, kerf_notice, const char*) {
      static_cast<KerfTest*>(user)->on_notice_();
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
  std::function<void()> on_recipe_ = [] {};
  std::function<void()> on_notice_ = [] {};

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

}  // namespace kerf::c
