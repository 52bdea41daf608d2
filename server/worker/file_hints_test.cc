// What a stream that knows its file asks the index for, and what it costs to know it, whoever the
// client is.
#include "server/worker/file_hints.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "server/worker/testing/hinted_world.h"

namespace kerf {
namespace {

constexpr std::size_t kChunkBytes = 256;

class FileHintsTest : public HintedWorld {
 protected:
  // A worker that has seen a file of so many chunks.
  void SetUp() override {
    Start("fixed:size=256", /*is_late=*/false);
    content_ = RandomBytes(kChunkBytes * 40'000);
    Upload({content_});
    hints_.emplace(context_.hints, RepositoryId{.name = "home"}, *ParseUploadProfile(profile_),
                   [this] { return now_; });
  }

  Bytes ChunkAt(std::size_t index) const {
    return AsBytes(content_).subspan(index * kChunkBytes, kChunkBytes);
  }

  // As AnswerChunks and AnswerLookedUp; all is in the index. How many digests that are not of the
  // chunks are looked up.
  std::size_t Answer(const std::vector<std::size_t>& indexes) {
    std::vector<Digest> digests;
    digests.reserve(indexes.size());
    for (const std::size_t index : indexes) {
      digests.push_back(Fingerprint(DigestAlgorithm::kBlake3, ChunkAt(index)));
    }
    std::vector<LookupResult> foreseen;
    const bool is_known = hints_->Foresee(digests, &foreseen);
    std::vector<Digest> ahead;
    if (!is_known) hints_->AppendAhead(hints_->is_known_file(), digests, &ahead);
    for (std::size_t index = 0; index < indexes.size(); ++index) {
      offset_ += kChunkBytes;
      CutChunk chunk;
      chunk.file_number = 1;
      chunk.end_offset = offset_;
      chunk.bytes = ChunkAt(indexes[index]);
      hints_->Answered(chunk, digests[index], Verdict::kDuplicate);
    }
    LookupResult known;
    known.verdict = Verdict::kDuplicate;
    known.length_bytes = kChunkBytes;
    std::vector<LookupResult> results(ahead.size(), known);
    if (!ahead.empty()) hints_->LearnAhead(ahead, results);
    return ahead.size();
  }

  std::string content_;
  std::optional<FileHints> hints_;
  FileHints::TimePoint now_{};
  std::uint64_t offset_ = 0;
};

// kMinAhead, and for each that came true kAheadForEach more: who jumps about in what is known gets
// the index to look up little for each chunk.
TEST_F(FileHintsTest, WhatIsAskedInVainIsInProportion) {
  std::size_t ahead_count = 0;
  constexpr std::size_t kChunks = 1000;
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    // Verdicts are too old, as of a client that takes its time.
    now_ += FileHints::kMaxVerdictAge + std::chrono::seconds(1);
    ahead_count += Answer({random_.Below(39'000)});
  }
  std::cout << ahead_count << " digests looked up ahead for " << kChunks << " chunks\n";
  EXPECT_LE(ahead_count, FileHints::kMinAhead + FileHints::kAheadForEach * kChunks);
}

// Known chunks in another order, as a client sends them that waits for nothing.
TEST_F(FileHintsTest, AnotherOrderCostsLittleMore) {
  std::size_t ahead_count = 0;
  constexpr std::size_t kChunks = 64 * 200;
  for (std::size_t batch = 0; batch < kChunks / 64; ++batch) {
    std::vector<std::size_t> indexes(64);
    for (std::size_t& index : indexes) index = random_.Below(39'000);
    ahead_count += Answer(indexes);
  }
  std::cout << ahead_count << " digests looked up ahead for " << kChunks << " chunks\n";
  EXPECT_LE(ahead_count, kChunks * 3 / 4);
}

TEST_F(FileHintsTest, NothingIsAskedAheadWhereMemoryIsShort) {
  std::vector<std::size_t> indexes(64);
  std::iota(indexes.begin(), indexes.end(), std::size_t{0});
  Answer(indexes);
  now_ += FileHints::kMaxVerdictAge + std::chrono::seconds(1);
  EXPECT_GT(Answer(indexes), 0u);
  hints_->Shed();
  for (int batch = 0; batch < 10; ++batch) EXPECT_EQ(Answer(indexes), 0u);
}

}  // namespace
}  // namespace kerf
