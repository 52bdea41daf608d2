#include "server/hints/segment.h"

#include <gtest/gtest.h>

#include <set>

#include "base/check.h"
#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

Profile ProfileOf(std::string_view text) {
  const auto profile = ParseProfile(text);
  KERF_CHECK(profile.ok());
  return *profile;
}

TEST(Segment, ItsBytesAreTheseForEver) {
  std::vector<std::uint8_t> run(20);
  for (std::size_t index = 0; index < run.size(); ++index) {
    run[index] = static_cast<std::uint8_t>(0x40 + index);
  }
  Segment segment;
  segment.written_day = 0x01020304;
  segment.sealed_run = run;
  EXPECT_EQ(EncodeSegment(segment),
            std::string("\x01\x00\x04\x03\x02\x01", 6) + "@ABCDEFGHIJKLMNOPQRS");
  segment.next.emplace();
  segment.next->bytes.fill('n');
  EXPECT_EQ(EncodeSegment(segment),
            std::string("\x01\x01\x04\x03\x02\x01", 6) + "nnnnnnnnnnnnnnnn@ABCDEFGHIJKLMNOPQRS");
  const SegmentId id = segment.id();
  EXPECT_EQ(std::string(id.bytes.begin(), id.bytes.end()), "DEFGHIJKLMNOPQRS");
  const std::string encoded = EncodeSegment(segment);
  const auto parsed = ParseSegment(encoded);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->next, segment.next);
  EXPECT_EQ(parsed->written_day, segment.written_day);
  EXPECT_EQ(parsed->id(), segment.id());
}

TEST(Segment, WhatNoSegmentIsIsRefused) {
  const std::string tag(kRunTagBytes, 't');
  const std::string head("\x01\x00....", 6);
  EXPECT_TRUE(ParseSegment(head + tag).ok());
  for (const std::string& bytes :
       {std::string(), head.substr(0, 5), head, head + tag.substr(1),
        std::string("\x00\x00....", 6) + tag, std::string("\x02\x00....", 6) + tag,
        std::string("\x01\x02....", 6) + tag,
        // A next segment, and then no run.
        std::string("\x01\x01....", 6) + tag, std::string("\x01\x01....", 6) + tag.substr(1),
        head + std::string(kMaxSegmentBytes, 'x')}) {
    const auto parsed = ParseSegment(bytes);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kDataLoss) << bytes.size();
  }
}

TEST(Segment, TheLongestRunFits) {
  const Profile profile = ProfileOf("mincdc-8k");
  std::vector<RunChunk> chunks(kMaxSegmentChunks);
  for (RunChunk& chunk : chunks) chunk.length_bytes = kMaxMaxBytes;
  const auto run = SealRun(RunKey(), std::string(kMaxRunScopeBytes, 'r'),
                           CutRun::OfExactCuts(profile, DigestAlgorithm::kBlake3, chunks, true));
  const std::string encoded = EncodeSegment({SegmentId(), 1, run});
  EXPECT_LE(encoded.size(), kMaxSegmentBytes);
  EXPECT_TRUE(ParseSegment(encoded).ok());
}

TEST(Segment, OneOfSixteenChunksIsAnAnchor) {
  Random random(TestSeed());
  constexpr std::size_t kCount = 16'000;
  std::vector<RunChunk> chunks(kCount);
  std::size_t expected = 0;
  for (RunChunk& chunk : chunks) {
    random.Fill(chunk.digest.bytes);
    if (IsAnchor(chunk.digest)) ++expected;
  }
  // 1000 expected, a standard deviation of 31.
  EXPECT_GT(expected, 800u);
  EXPECT_LT(expected, 1200u);
  chunks[0].digest.bytes[15] = 1;
  chunks[1] = chunks[0];
  const auto anchors = AnchorsOf(chunks, false);
  EXPECT_EQ(AnchorsOf(chunks, true).size(), anchors.size() + 1);
  EXPECT_EQ(AnchorsOf(chunks, true)[0], chunks[0].digest);
  // A file of zeros.
  std::vector<RunChunk> zeros(1000);
  EXPECT_EQ(AnchorsOf(zeros, true).size(), 1u);
}

TEST(Segment, KeysOfScopesDiffer) {
  Random random(TestSeed());
  std::set<std::string> keys;
  Digest digest;
  random.Fill(digest.bytes);
  SegmentId id;
  random.Fill(id.bytes);
  std::size_t count = 0;
  for (const char* const name : {"a", "b", "a\nblake3", ""}) {
    for (const DigestAlgorithm algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256}) {
      for (const char* const profile : {"mincdc-8k", "rabin-8k"}) {
        const HintScope scope({name, algorithm}, ProfileOf(profile));
        keys.insert(HintKeyOf(scope, digest));
        keys.insert(HintKeyOf(scope, id));
        count += 2;
        EXPECT_EQ(HintKeyOf(scope, digest).size(), 16u);
      }
    }
  }
  EXPECT_EQ(keys.size(), count);
  EXPECT_FALSE(HintScope({"a", DigestAlgorithm::kXxh3_128}, ProfileOf("mincdc-8k")).is_useful());
}

}  // namespace
}  // namespace kerf
