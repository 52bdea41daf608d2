#include "kernels/vectors/vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "base/strings.h"
#include "kernels/reference/reference.h"

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

std::vector<ForeignChunk> CutByReference(const Profile& profile,
                                         std::span<const std::uint8_t> bytes) {
  std::vector<ForeignChunk> chunks;
  while (!bytes.empty()) {
    const auto chunk = bytes.first(ReferenceNextCut(profile, bytes));
    chunks.push_back({chunk.size(), Fingerprint(DigestAlgorithm::kBlake3, chunk),
                      Fingerprint(DigestAlgorithm::kSha256, chunk)});
    bytes = bytes.subspan(chunk.size());
  }
  return chunks;
}

TEST(Vectors, ForeignCutsAreCompared) {
  const std::string vectors = ReadGolden();
  const auto check = [&](const std::function<void(std::vector<ForeignChunk>&)>& spoil) {
    return CheckForeignAgainst(
        vectors,
        [&](const Profile& profile, std::span<const std::uint8_t> bytes)
            -> absl::StatusOr<std::optional<std::vector<ForeignChunk>>> {
          if (profile.algorithm != Algorithm::kGear || bytes.size() > 400'000) return std::nullopt;
          auto chunks = CutByReference(profile, bytes);
          spoil(chunks);
          return chunks;
        });
  };
  const auto count = check([](auto&) {});
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_GT(*count, 5u);
  const std::function<void(std::vector<ForeignChunk>&)> spoils[] = {
      [](auto& chunks) { chunks.back().blake3.bytes[31] ^= 1; },
      [](auto& chunks) { chunks.front().sha256.bytes[0] ^= 128; },
      [](auto& chunks) { chunks.pop_back(); },
      [](auto& chunks) { chunks.push_back({1, {}, {}}); },
      [](auto& chunks) {
        if (chunks.size() > 1) {
          ++chunks[0].size_bytes;
          --chunks[1].size_bytes;
        }
      },
  };
  for (const auto& spoil : spoils) {
    EXPECT_EQ(check(spoil).status().code(), absl::StatusCode::kDataLoss);
  }
  const auto refuse = [](const Profile&, std::span<const std::uint8_t>) {
    return absl::StatusOr<std::optional<std::vector<ForeignChunk>>>(absl::AbortedError("no"));
  };
  EXPECT_TRUE(absl::IsAborted(CheckForeignAgainst(vectors, refuse).status()));
}

}  // namespace
}  // namespace kerf
