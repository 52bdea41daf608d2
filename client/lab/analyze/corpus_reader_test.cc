#include "client/lab/analyze/corpus_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/lab/analyze/sample.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::uint64_t Sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

TEST(Sample, TakesAllThatFits) {
  EXPECT_THAT(ChooseSample({{"a", 10}, {"b", 20}}, 30, 1), ElementsAre(10, 20));
}

TEST(Sample, TakesWholeFilesUpToTheLimit) {
  std::vector<SampleCandidate> candidates;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    candidates.push_back({std::string(3, letter), 100});
  }
  const std::vector<std::uint64_t> taken = ChooseSample(candidates, 1650, 1);
  EXPECT_EQ(Sum(taken), 1600);
  for (const std::uint64_t bytes : taken) EXPECT_TRUE(bytes == 0 || bytes == 100);
  EXPECT_EQ(taken, ChooseSample(candidates, 1650, 1));
  EXPECT_NE(taken, ChooseSample(candidates, 1650, 2));
}

TEST(Sample, VersionsOfAFileAreTakenTogether) {
  std::vector<SampleCandidate> candidates;
  for (char letter = 'a'; letter <= 't'; ++letter) {
    for (int version = 1; version <= 3; ++version) {
      candidates.push_back({Cat("tool-", version, "/", std::string(1, letter)), 10});
    }
  }
  const std::vector<std::uint64_t> taken = ChooseSample(candidates, 300, 7);
  EXPECT_EQ(Sum(taken), 300);
  for (std::size_t index = 0; index < taken.size(); index += 3) {
    EXPECT_EQ(taken[index], taken[index + 1]) << candidates[index].name;
    EXPECT_EQ(taken[index], taken[index + 2]) << candidates[index].name;
  }
}

TEST(Sample, OfLargeFilesTheFrontIsTaken) {
  EXPECT_THAT(ChooseSample({{"disk1.img", 1000}, {"disk2.img", 1000}, {"disk3.img", 1000}}, 600, 1),
              ElementsAre(200, 200, 200));
}

class ReadCorpusTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  absl::StatusOr<Corpus> Read(const std::vector<std::string>& names,
                              std::uint64_t max_bytes = 1 << 20) {
    ReadOptions options;
    for (const std::string& name : names) options.paths.push_back(folder_ / name);
    options.max_bytes = max_bytes;
    options.on_warning = [this](const std::string& path, const absl::Status&) {
      warnings_.push_back(path);
    };
    return ReadCorpus(options, cancelled_, progress_.emplace());
  }

  static std::string Text(const Corpus& corpus) {
    return {corpus.all().begin(), corpus.all().end()};
  }

  kerf::agent::testing::TemporaryDirectory folder_;
  std::atomic<bool> cancelled_{false};
  std::optional<ReadProgress> progress_;
  std::vector<std::string> warnings_;
};

TEST_F(ReadCorpusTest, FoldersInOnePathAreParts) {
  Write("tree/v10/a", "ten");
  Write("tree/v9/a", "nine");
  Write("tree/v9/sub/b", "deep");
  Write("tree/loose", "loose");
  Write("tree/empty", "");
  const auto corpus = Read({"tree"});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(corpus->parts, ElementsAre(".", "v9", "v10"));
  EXPECT_EQ(Text(*corpus), "looseninedeepten");
  ASSERT_EQ(corpus->files.size(), 4u);
  EXPECT_EQ(corpus->files[3].part, 2u);
  EXPECT_EQ(corpus->files[3].offset_bytes, 13u);
  EXPECT_FALSE(corpus->is_sample());
  EXPECT_EQ(progress_->done_files, 4u);
}

TEST_F(ReadCorpusTest, WhereThereAreOnlyFilesEachIsAPart) {
  Write("tree/go1.9.tar", "9");
  Write("tree/go1.10.tar", "10");
  const auto corpus = Read({"tree"});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(corpus->parts, ElementsAre("go1.9.tar", "go1.10.tar"));
  EXPECT_EQ(Text(*corpus), "910");
  for (int number = 0; number < 100; ++number) Write(Cat("many/f", number), "x");
  EXPECT_EQ(Read({"many"})->parts.size(), 100u);
  Write("many/more", "x");
  EXPECT_THAT(Read({"many"})->parts, ElementsAre("."));
}

TEST_F(ReadCorpusTest, SeveralPathsArePartsInTheirOrder) {
  Write("b/x", "first");
  Write("a", "second");
  const auto corpus = Read({"b", "a"});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(corpus->parts, ElementsAre(folder_ / "b", folder_ / "a"));
  EXPECT_EQ(Text(*corpus), "firstsecond");
}

TEST_F(ReadCorpusTest, WhatCannotBeReadIsReportedAndLeftOut) {
  Write("a", "there");
  const auto corpus = Read({"none", "a"});
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Text(*corpus), "there");
  EXPECT_THAT(warnings_, ElementsAre(folder_ / "none"));
}

TEST_F(ReadCorpusTest, NothingIsAnError) {
  EXPECT_EQ(Read({"none"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(warnings_, ::testing::IsEmpty());
  Write("tree/empty", "");
  const auto empty = Read({"tree"});
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(empty.status())), HasSubstr("nothing to analyze"));
}

TEST_F(ReadCorpusTest, ASampleSaysWhatWasThere) {
  for (int number = 0; number < 40; ++number) Write(Cat("tree/f", number), std::string(100, 'x'));
  const auto corpus = Read({"tree"}, 2000);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_TRUE(corpus->is_sample());
  EXPECT_EQ(corpus->size_bytes, 2000u);
  EXPECT_EQ(corpus->found_bytes, 4000u);
  EXPECT_EQ(corpus->found_file_count, 40u);
  EXPECT_EQ(corpus->shortened_file_count, 0u);
  const auto shortened = Read({"tree/f1", "tree/f2"}, 100);
  ASSERT_TRUE(shortened.ok()) << shortened.status();
  EXPECT_EQ(shortened->shortened_file_count, 2u);
  EXPECT_EQ(shortened->size_bytes, 100u);
}

TEST_F(ReadCorpusTest, AnInterruptEndsIt) {
  Write("a", "there");
  cancelled_ = true;
  EXPECT_EQ(Read({"a"}).status().code(), absl::StatusCode::kCancelled);
}

TEST(EvenPiecesTest, LieApartAndWithinTheBudget) {
  const std::vector<std::uint8_t> data(1000);
  EXPECT_EQ(EvenPieces(data, 1000, 100).size(), 1u);
  const std::vector<Bytes> pieces = EvenPieces(data, 400, 100);
  ASSERT_EQ(pieces.size(), 4u);
  for (std::size_t index = 0; index < 4; ++index) {
    EXPECT_EQ(pieces[index].data() - data.data(), static_cast<std::ptrdiff_t>(index * 250));
    EXPECT_EQ(pieces[index].size(), 100u);
  }
}

}  // namespace
}  // namespace kerf::agent::analyze
