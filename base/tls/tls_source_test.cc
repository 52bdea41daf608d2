#include "base/tls/tls_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class TlsSourceTest : public testing::Test {
 protected:
  TlsSourceTest() {
    std::filesystem::create_directories(folder_);
    WriteTlsFile(folder_ + "/ca.pem", all_.ca.certificate);
    files_ = WriteTlsFiles(folder_, "server", all_.server, folder_ + "/ca.pem");
    Open();
  }
  ~TlsSourceTest() override {
    source_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Open(milliseconds interval = milliseconds(2)) {
    auto opened = TlsSource::Open(
        {.files = files_},
        [this](const absl::Status& status, const TlsContext& context) {
          const std::lock_guard lock(mutex_);
          said_.push_back(status.ok() ? "" : std::string(MessageOf(status)));
          told_ = &context;
        },
        interval);
    ASSERT_TRUE(opened.ok()) << opened.status();
    source_ = *std::move(opened);
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  static bool WaitUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return condition();
  }
  bool WaitForSaid(std::size_t count) {
    return WaitUntil([&] { return said().size() >= count; });
  }
  // Another one is used, and was told of.
  bool WaitForChange(const TlsContext& before) {
    return WaitUntil([&] {
      const std::lock_guard lock(mutex_);
      return source_->current().get() != &before && told_ == source_->current().get();
    });
  }

  const TestCertificates& all_ = TestCertificates::Get();
  std::string folder_ = Cat(testing::TempDir(), "source-",
                            testing::UnitTest::GetInstance()->current_test_info()->name());
  TlsFiles files_;
  std::mutex mutex_;
  std::vector<std::string> said_;
  const TlsContext* told_ = nullptr;
  std::unique_ptr<TlsSource> source_;
};

TEST_F(TlsSourceTest, WhatHasChangedIsUsedFromThenOn) {
  const auto before = source_->current();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(source_->current(), before) << "nothing has changed";
  const auto other = all_.Of("other", {"localhost"}, true, false, std::chrono::hours(2));
  WriteTlsFiles(folder_, "server", other);
  ASSERT_TRUE(WaitForChange(*before));
  EXPECT_EQ(said().back(), "");
  EXPECT_LT(source_->current()->expires_at_s(), before->expires_at_s());
  EXPECT_EQ(source_->current()->TimeLeft().count(), 1);
  // Those that were made of it live on.
  EXPECT_NE(before->NewSession(), nullptr);
}

// The files of a rotation come one after the other, and a bad one may stay for days.
TEST_F(TlsSourceTest, WhatIsOfNoUseIsSaidOnceAndChangesNothing) {
  const auto before = source_->current();
  WriteTlsFile(files_.key, all_.client.key);
  ASSERT_TRUE(WaitForSaid(1));
  std::this_thread::sleep_for(milliseconds(50));
  ASSERT_EQ(said().size(), 1u);
  EXPECT_THAT(said()[0], HasSubstr("not the key of the certificate"));
  EXPECT_EQ(source_->current(), before);
  std::filesystem::remove(files_.key);
  ASSERT_TRUE(WaitForSaid(2));
  EXPECT_THAT(said()[1], HasSubstr(files_.key));
  WriteTlsFile(files_.key, all_.server.key);
  ASSERT_TRUE(WaitForSaid(3));
  EXPECT_EQ(said()[2], "");
}

// By who says that all are written: without a look before, and without a second one.
TEST_F(TlsSourceTest, IsReadAtOnceWhereItIsAskedTo) {
  source_.reset();
  Open(std::chrono::hours(1));
  const auto before = source_->current();
  EXPECT_TRUE(source_->Reload().ok());
  EXPECT_EQ(source_->current(), before) << "nothing has changed";
  WriteTlsFiles(folder_, "server", all_.Of("other", {"localhost"}, true, false));
  EXPECT_TRUE(source_->Reload().ok());
  EXPECT_NE(source_->current(), before);
  // Said each time that it is asked, and told of once.
  WriteTlsFile(files_.key, all_.client.key);
  for (int ask = 0; ask < 2; ++ask) {
    EXPECT_THAT(std::string(MessageOf(source_->Reload())), HasSubstr("not the key"));
  }
  EXPECT_EQ(said().size(), 2u);
}

// A chain that is half written is a good file, too, and so are CAs of which some are there.
TEST_F(TlsSourceTest, WhatIsStillWrittenIsWaitedFor) {
  constexpr milliseconds kInterval{100};
  source_.reset();
  Open(kInterval);
  const auto before = source_->current();
  for (int round = 0; round < 6; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    std::string text = all_.ca.certificate;
    // Never twice the same.
    for (int count = 0; count <= round; ++count) text += all_.ca.certificate;
    WriteTlsFile(files_.ca, text);
    std::this_thread::sleep_for(kInterval * 8 / 10);
    // On a machine that is busy it may have stood for two looks.
    if (std::chrono::steady_clock::now() - begin >= kInterval) return;
    ASSERT_EQ(source_->current(), before) << "round " << round;
  }
  ASSERT_TRUE(WaitForChange(*before));
}

TEST_F(TlsSourceTest, ManyThreadsAskWhileItChanges) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  threads.reserve(4);
  threads.emplace_back([&] {
    while (!is_over.load()) source_->Reload().IgnoreError();
  });
  for (int index = 0; index < 3; ++index) {
    threads.emplace_back([&] {
      while (!is_over.load()) EXPECT_NE(source_->current()->NewSession(), nullptr);
    });
  }
  for (int turn = 0; turn < 5; ++turn) {
    const auto before = source_->current();
    WriteTlsFiles(folder_, "server", all_.Of("other", {"localhost"}, true, false));
    EXPECT_TRUE(WaitForChange(*before));
  }
  is_over.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kerf
