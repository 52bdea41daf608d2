#include "client/c/pushed_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/out_of_memory.h"

namespace kerf::c {
namespace {

std::vector<std::uint8_t> Content(std::size_t size_bytes) {
  std::vector<std::uint8_t> content(size_bytes);
  std::iota(content.begin(), content.end(), std::uint8_t{0});
  return content;
}

// Reads all into `taken`, as much as `span_bytes` at a time.
PushedFile::Send Taking(std::vector<std::uint8_t>& taken, std::size_t span_bytes) {
  return [&taken, span_bytes](const PushedFile::Reader& reader) -> absl::Status {
    std::vector<std::uint8_t> span(span_bytes);
    while (true) {
      const absl::StatusOr<std::size_t> count = reader(span);
      if (!count.ok()) return count.status();
      if (*count == 0) return absl::OkStatus();
      taken.insert(taken.end(), span.begin(), span.begin() + static_cast<std::ptrdiff_t>(*count));
    }
  };
}

TEST(PushedFileTest, PiecesOfAllSizesArriveInOrder) {
  const std::vector<std::uint8_t> content = Content(3'000'001);
  for (const std::size_t piece_bytes : {1'000, 262'143, 262'144, 262'145, 1'000'000}) {
    std::vector<std::uint8_t> taken;
    PushedFile file(Taking(taken, 65'537));
    for (std::span<const std::uint8_t> rest(content); !rest.empty();) {
      const std::size_t count = std::min(piece_bytes, rest.size());
      ASSERT_TRUE(file.Write(rest.first(count)).ok());
      ASSERT_TRUE(file.Write({}).ok());
      rest = rest.subspan(count);
    }
    EXPECT_TRUE(file.End().ok());
    EXPECT_TRUE(taken == content) << piece_bytes;
  }
}

TEST(PushedFileTest, AnEmptyFileIsOne) {
  std::vector<std::uint8_t> taken;
  PushedFile file(Taking(taken, 16));
  EXPECT_TRUE(file.End().ok());
  EXPECT_TRUE(taken.empty());
}

TEST(PushedFileTest, WhoReadsIsToldWhyItIsAbandoned) {
  std::vector<std::uint8_t> taken;
  PushedFile file(Taking(taken, 16));
  ASSERT_TRUE(file.Write(Content(1'000'000)).ok());
  EXPECT_EQ(file.Abandon(absl::DataLossError("why")), absl::DataLossError("why"));
  EXPECT_EQ(taken.size(), 1'000'000);
}

TEST(PushedFileTest, OneThatIsLeftEnds) {
  std::vector<std::uint8_t> taken;
  PushedFile file(Taking(taken, 16));
  ASSERT_TRUE(file.Write(Content(10)).ok());
}

TEST(PushedFileTest, WhoReadsNoMoreEndsTheWriting) {
  const absl::Status why = absl::UnavailableError("gone");
  PushedFile file([&](const PushedFile::Reader& reader) {
    std::vector<std::uint8_t> span(10);
    EXPECT_TRUE(reader(span).ok());
    return why;
  });
  const std::vector<std::uint8_t> content = Content(1'000'000);
  EXPECT_EQ(file.Write(content), why);
  EXPECT_EQ(file.Write(content), why);
  EXPECT_EQ(file.End(), why);
}

TEST(PushedFileTest, WithoutMemoryTheWriterIsTold) {
  PushedFile file([](const PushedFile::Reader&) -> absl::Status { throw std::bad_alloc(); });
  EXPECT_TRUE(client::IsOutOfMemory(file.Write(Content(1'000'000))));
  EXPECT_TRUE(client::IsOutOfMemory(file.End()));
}

}  // namespace
}  // namespace kerf::c
