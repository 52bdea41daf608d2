#include "kernels/vectors/vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/strings.h"

namespace kerf {
namespace {

std::string ReadGolden() {
  std::ifstream file("proto/kerf/v1/vectors/chunking.json", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Vectors, ReferencesMakeThem) {
  // Not EXPECT_EQ: it would print both.
  EXPECT_TRUE(MakeVectors() == ReadGolden()) << "tools/vectors --check says more";
}

TEST(Vectors, KernelsAgree) {
  const absl::Status status = CheckKernelsAgainst(ReadGolden());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Vectors, AChangedCutOrDigestIsFound) {
  for (const std::string_view key : {"\"chunk_count\":", "\"blake3\":\"", "\"first_ends\":["}) {
    std::string vectors = ReadGolden();
    const std::size_t digit = vectors.find(key) + key.size();
    vectors[digit] = vectors[digit] == '7' ? '8' : '7';
    EXPECT_EQ(CheckKernelsAgainst(vectors).code(), absl::StatusCode::kDataLoss) << key;
  }
  EXPECT_EQ(CheckKernelsAgainst("{}").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckKernelsAgainst("").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kerf
