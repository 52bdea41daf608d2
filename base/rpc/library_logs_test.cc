#include "base/rpc/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "base/rpc/line_rate.h"

namespace kerf {
namespace {

// A guard against a hang.
constexpr std::chrono::seconds kPatience{30};

struct Said {
  LibraryLine::Severity severity;
  std::string component;
  std::string source;
  std::string message;
  std::uint64_t left_out = 0;
};

class LibraryLogsTest : public testing::Test {
 protected:
  // Before that it says nothing at all.
  LibraryLogsTest() { grpc_init(); }
  ~LibraryLogsTest() override { grpc_shutdown(); }

  LibraryLogs::Say Keep() {
    return [this](const LibraryLine& line) {
      const std::lock_guard lock(mutex_);
      said_.push_back({line.severity, std::string(line.component), std::string(line.source),
                       std::string(line.message), line.left_out});
      changed_.notify_all();
    };
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Said> said_;
};

TEST_F(LibraryLogsTest, WhatGrpcAndProtobufSayIsHeardWithItsSource) {
  {
    const LibraryLogs logs(Keep());
    gpr_log("src/of/grpc.cc", 7, GPR_LOG_SEVERITY_ERROR, "%s", "two\nlines");
    GOOGLE_LOG(WARNING) << "of protobuf";
  }
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[0].severity, LibraryLine::Severity::kError);
  EXPECT_EQ(said_[0].component, "grpc");
  EXPECT_EQ(said_[0].source, "grpc.cc:7");
  EXPECT_EQ(said_[0].message, "two\nlines");
  EXPECT_EQ(said_[1].severity, LibraryLine::Severity::kWarning);
  EXPECT_EQ(said_[1].component, "protobuf");
  EXPECT_EQ(said_[1].message, "of protobuf");
  // Nobody is there to hear it any more, and nothing breaks.
  gpr_log("src/of/grpc.cc", 7, GPR_LOG_SEVERITY_ERROR, "late");
  EXPECT_EQ(said_.size(), 2u);
}

TEST_F(LibraryLogsTest, WhatIsLeftOutIsCountedSoonAndAtTheEnd) {
  constexpr std::size_t kLines = LineRate::kLinesASecond + 32;
  {
    const LibraryLogs logs(Keep());
    const auto say_many = [] {
      for (std::size_t line = 0; line < kLines; ++line) {
        gpr_log("flood.cc", 1, GPR_LOG_SEVERITY_ERROR, "flood");
      }
    };
    say_many();
    {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(changed_.wait_for(lock, kPatience,
                                    [&] { return !said_.empty() && said_.back().left_out > 0; }));
    }
    say_many();
  }
  std::size_t said = 0;
  std::size_t left_out = 0;
  for (const Said& line : said_) {
    EXPECT_EQ(line.source, "flood.cc:1");
    line.left_out > 0 ? left_out += line.left_out : ++said;
  }
  EXPECT_EQ(said + left_out, 2 * kLines);
  EXPECT_GT(said_.back().left_out, 0u);
}

}  // namespace
}  // namespace kerf
