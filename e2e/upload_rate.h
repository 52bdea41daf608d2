// How fast one client uploads.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {

// Where the time of all files went: until the last byte of each was taken, its last chunk answered,
// and its commit.
struct UploadTimes {
  double sending_seconds = 0;
  double answer_seconds = 0;
  double commit_seconds = 0;
  std::uint64_t file_count = 0;
};

// MB a second of new files of 4 MiB, each committed before the next one, by one stream over a
// connection of `channel`. Fails the test, and is 0, if the stream breaks.
inline double UploadRate(const std::shared_ptr<grpc::Channel>& channel, std::string_view repository,
                         Random& random, std::chrono::seconds measured_time,
                         UploadTimes* times = nullptr) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kFileBytes = std::size_t{4} << 20;
  constexpr std::size_t kSliceBytes = std::size_t{256} << 10;
  TestUpload upload(channel);
  EXPECT_TRUE(upload.SendOpen(OpenFor(repository)));
  std::string file(kFileBytes, '\0');
  random.Fill({reinterpret_cast<std::uint8_t*>(file.data()), file.size()});
  const Clock::time_point begin = Clock::now();
  std::uint64_t number = 0;
  UploadTimes spent;
  auto lap = [last = begin]() mutable {
    const Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last, now)).count();
  };
  while (Clock::now() - begin < measured_time) {
    // New, without the time that drawing it takes.
    for (std::size_t at = 0; at < file.size(); at += 512) ++file[at];
    EXPECT_TRUE(upload.SendFile(file, kSliceBytes));
    spent.sending_seconds += lap();
    EXPECT_TRUE(upload.WaitForChunks(++number, kFileBytes));
    spent.answer_seconds += lap();
    EXPECT_TRUE(upload.CommitAnswered());
    spent.commit_seconds += lap();
    if (testing::Test::HasFailure()) return 0;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  spent.file_count = number;
  if (times != nullptr) *times = spent;
  upload.WritesDone();
  EXPECT_TRUE(upload.WaitForEnd().ok());
  return static_cast<double>(number * kFileBytes) / 1e6 / seconds;
}

}  // namespace kerf::e2e
