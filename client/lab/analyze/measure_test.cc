#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "client/lab/analyze/count.h"
#include "client/lab/analyze/resync.h"
#include "client/lab/analyze/speed.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::ElementsAre;

const std::atomic<bool> kNotCancelled{false};

std::vector<std::uint8_t> RandomBytes(std::uint64_t seed, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  Random(seed).Fill(bytes);
  return bytes;
}

// One file a part.
Corpus CorpusOf(const std::vector<std::vector<std::uint8_t>>& files) {
  Corpus corpus;
  std::size_t size = 0;
  for (const auto& file : files) size += file.size();
  corpus.content = std::make_unique<std::uint8_t[]>(size);
  for (const auto& file : files) {
    std::copy(file.begin(), file.end(), corpus.content.get() + corpus.size_bytes);
    corpus.files.push_back(
        {corpus.size_bytes, file.size(), static_cast<std::uint32_t>(corpus.parts.size())});
    corpus.size_bytes += file.size();
    corpus.parts.push_back(std::to_string(corpus.parts.size()));
  }
  corpus.found_bytes = corpus.size_bytes;
  return corpus;
}

std::unique_ptr<Chunker> ChunkerOf(const char* profile) {
  return MakeChunker(*ParseProfile(profile));
}

CountFigures Count(const char* profile, const Corpus& corpus) {
  std::atomic<std::uint64_t> done_bytes{0};
  const auto figures = CountUnique(*ChunkerOf(profile), corpus, kNotCancelled, done_bytes);
  EXPECT_EQ(done_bytes, corpus.size_bytes);
  return *figures;
}

TEST(CountUnique, EqualChunksCountOnce) {
  // Chunks a, b; b, a; and a with a tail c.
  const std::vector<std::uint8_t> a = RandomBytes(1, 1000);
  const std::vector<std::uint8_t> b = RandomBytes(2, 1000);
  std::vector<std::uint8_t> ab = a;
  ab.insert(ab.end(), b.begin(), b.end());
  std::vector<std::uint8_t> ba = b;
  ba.insert(ba.end(), a.begin(), a.end());
  std::vector<std::uint8_t> ac = a;
  ac.insert(ac.end(), {1, 2, 3});
  const CountFigures figures = Count("fixed:size=1000", CorpusOf({ab, ba, ac}));
  EXPECT_EQ(figures.total_bytes, 5003u);
  EXPECT_EQ(figures.unique_bytes, 2003u);
  EXPECT_EQ(figures.chunk_count, 6u);
  EXPECT_EQ(figures.unique_chunk_count, 3u);
  EXPECT_THAT(figures.new_bytes_by_part, ElementsAre(2000, 0, 3));
  EXPECT_DOUBLE_EQ(figures.savings(), 1 - 2003.0 / 5003);
  EXPECT_DOUBLE_EQ(figures.average_bytes(), 5003.0 / 6);
  EXPECT_EQ(figures.sizes.min_bytes, 3u);
  EXPECT_EQ(figures.sizes.p50_bytes, 1000u);
}

TEST(CountUnique, FilesAreCutOneByOne) {
  // As one stream, the second file would begin within a chunk.
  const std::vector<std::uint8_t> file = RandomBytes(1, 1500);
  const CountFigures figures = Count("fixed:size=1000", CorpusOf({file, file}));
  EXPECT_EQ(figures.unique_bytes, 1500u);
  EXPECT_EQ(figures.chunk_count, 4u);
}

TEST(CountUnique, ContentDefinedChunksSurviveAnInsertAndFixedOnesDoNot) {
  const std::vector<std::uint8_t> before = RandomBytes(1, 400'000);
  std::vector<std::uint8_t> after = before;
  after.insert(after.begin() + 1000, 7);
  const Corpus corpus = CorpusOf({before, after});
  EXPECT_GT(Count("mincdc-8k", corpus).savings(), 0.45);
  EXPECT_EQ(Count("fixed-8k", corpus).savings(), 0);
}

TEST(CountUnique, AnInterruptEndsIt) {
  const Corpus corpus = CorpusOf({RandomBytes(1, 20 << 20)});
  const std::atomic<bool> cancelled{true};
  std::atomic<std::uint64_t> done_bytes{0};
  EXPECT_FALSE(CountUnique(*ChunkerOf("mincdc-8k"), corpus, cancelled, done_bytes).has_value());
}

TEST(CountWholeFilesTest, EqualFilesCountOnce) {
  const std::vector<std::uint8_t> one = RandomBytes(1, 1000);
  const CountFigures figures = CountWholeFiles(CorpusOf({one, RandomBytes(2, 500), one}));
  EXPECT_EQ(figures.unique_bytes, 1500u);
  EXPECT_THAT(figures.new_bytes_by_part, ElementsAre(1000, 500, 0));
}

TEST(Distribution, PercentilesAndHistogram) {
  std::vector<std::uint32_t> sizes(100);
  std::iota(sizes.begin(), sizes.end(), 1);
  std::reverse(sizes.begin(), sizes.end());
  const SizeDistribution distribution = DistributionOf(sizes);
  EXPECT_EQ(distribution.min_bytes, 1u);
  EXPECT_EQ(distribution.p5_bytes, 5u);
  EXPECT_EQ(distribution.p25_bytes, 25u);
  EXPECT_EQ(distribution.p50_bytes, 50u);
  EXPECT_EQ(distribution.p75_bytes, 75u);
  EXPECT_EQ(distribution.p95_bytes, 95u);
  EXPECT_EQ(distribution.max_bytes, 100u);
  std::vector<std::uint64_t> counts;
  counts.reserve(distribution.histogram.size());
  for (const SizeDistribution::Step& step : distribution.histogram) {
    counts.push_back(step.chunk_count);
  }
  EXPECT_THAT(counts, ElementsAre(1, 1, 2, 4, 8, 16, 32, 36));
  EXPECT_EQ(distribution.histogram.back().up_to_bytes, 128u);
  std::vector<std::uint32_t> three = {30, 10, 20};
  EXPECT_EQ(DistributionOf(three).p25_bytes, 10u);
  EXPECT_EQ(DistributionOf(three).p50_bytes, 20u);
  EXPECT_EQ(DistributionOf(three).p75_bytes, 30u);
  std::vector<std::uint32_t> none;
  EXPECT_EQ(DistributionOf(none).max_bytes, 0u);
}

TEST(Resync, FixedSizeSendsAllThatIsBehindAnInsertedByte) {
  const std::vector<std::uint8_t> before = RandomBytes(1, 100'000);
  std::vector<std::uint8_t> after = before;
  after.insert(after.begin() + 50'500, 7);
  // Chunks of 1000: the first 50 stay.
  EXPECT_EQ(ResentBytes(*ChunkerOf("fixed:size=1000"), before, after), 50'001u);
  std::vector<std::uint8_t> overwritten = before;
  overwritten[50'500] ^= 1;
  EXPECT_EQ(ResentBytes(*ChunkerOf("fixed:size=1000"), before, overwritten), 1000u);
  EXPECT_EQ(ResentBytes(*ChunkerOf("fixed:size=1000"), before, before), 0u);
}

TEST(Resync, ContentDefinedChunksFallIntoStep) {
  const Corpus corpus = CorpusOf({RandomBytes(1, 4 << 20)});
  const std::vector<Edit> edits = MakeEdits(corpus, 16, 5);
  ASSERT_EQ(edits.size(), 48u);
  const auto resync = [&](const char* profile) {
    return MeasureResync(*ChunkerOf(profile), corpus, edits, 8192, kNotCancelled);
  };
  const ResyncFigures content = resync("mincdc-8k");
  EXPECT_EQ(content.edit_count, 48u);
  // At least the chunk that was changed; not the 56 averages behind it.
  for (const double bytes : {content.insert_bytes, content.delete_bytes, content.overwrite_bytes}) {
    EXPECT_GT(bytes, 4096);
    EXPECT_LT(bytes, 6 * 8192);
  }
  EXPECT_NEAR(content.mean_bytes,
              (content.insert_bytes + content.delete_bytes + content.overwrite_bytes) / 3, 1e-6);
  const ResyncFigures fixed = resync("fixed-8k");
  EXPECT_GT(fixed.insert_bytes, 40 * 8192);
  EXPECT_EQ(fixed.overwrite_bytes, 8192);
}

TEST(Resync, EditsStayWithinTheirFile) {
  // Files of one byte: what is deleted is all, what is inserted doubles it.
  const Corpus corpus = CorpusOf({{1}, {2}, {3}});
  const ResyncFigures figures = MeasureResync(*ChunkerOf("fixed:size=64"), corpus,
                                              MakeEdits(corpus, 8, 1), 64, kNotCancelled);
  EXPECT_EQ(figures.insert_bytes, 2);
  EXPECT_EQ(figures.delete_bytes, 0);
  EXPECT_EQ(figures.overwrite_bytes, 1);
}

TEST(Speed, IsMeasuredForTheChosenBackend) {
  const std::vector<std::uint8_t> data = RandomBytes(1, 1 << 20);
  const std::vector<Bytes> pieces = SpeedPieces(data);
  ASSERT_EQ(pieces.size(), 1u);
  SpeedFigures figures;
  MeasureSpeed(*ParseProfile("mincdc-8k"), DigestAlgorithm::kBlake3, pieces, kRoundBytes,
               kNotCancelled, figures);
  EXPECT_FALSE(figures.backend.empty());
  EXPECT_GT(figures.cut_bytes_per_second, 0);
  EXPECT_GT(figures.hashed_bytes_per_second, 0);
  EXPECT_GT(figures.ceiling_bytes_per_second, figures.hashed_bytes_per_second);
  EXPECT_GT(figures.fingerprint_bytes_per_second, 0);
  EXPECT_DOUBLE_EQ(figures.share_of_fingerprint(),
                   figures.hashed_bytes_per_second / figures.fingerprint_bytes_per_second);
  EXPECT_DOUBLE_EQ(figures.share_of_ceiling(),
                   figures.cut_bytes_per_second / figures.ceiling_bytes_per_second);
}

}  // namespace
}  // namespace kerf::agent::analyze
