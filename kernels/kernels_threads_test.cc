// Chunkers and fingerprints are shared by a pool of threads, first use included.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/stream_cutter.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;

std::vector<Digest> CutAndHash(const Chunker& chunker, DigestAlgorithm algorithm, Bytes bytes) {
  StreamCutter cutter(chunker);
  std::vector<Digest> all;
  const auto drain = [&] {
    std::vector<Bytes> chunks;
    while (const std::optional<StreamChunk> chunk = cutter.Next()) chunks.push_back(chunk->bytes);
    std::vector<Digest> digests(chunks.size());
    FingerprintMany(algorithm, chunks, digests);
    all.insert(all.end(), digests.begin(), digests.end());
  };
  while (!bytes.empty()) {
    bytes = bytes.subspan(cutter.Append(bytes));
    drain();
  }
  cutter.Finish();
  drain();
  return all;
}

TEST(KernelsThreads, OneChunkerServesAll) {
  constexpr std::size_t kThreads = 8;
  const std::vector<std::uint8_t> bytes = MakeInput("random", TestSeed(), 400000);
  for (const char* name : {"fastcdc2020-8k", "fastcdc-8k"}) {
    for (const DigestAlgorithm algorithm :
         {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
      const std::unique_ptr<Chunker> chunker = MakeChunker(*ParseProfile(name));
      std::vector<std::vector<Digest>> results(kThreads);
      std::vector<std::thread> threads;
      threads.reserve(kThreads);
      for (std::vector<Digest>& result : results) {
        threads.emplace_back([&] { result = CutAndHash(*chunker, algorithm, bytes); });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::vector<Digest>& result : results) EXPECT_EQ(result, results[0]);
      EXPECT_GT(results[0].size(), 10u);
    }
  }
}

}  // namespace
}  // namespace kerf
