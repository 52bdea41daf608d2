#include "server/index/codec.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf::index_codec {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)

// Written by hand from the layout in codec.h: what is on a disk today is read for ever.
TEST(IndexCodecTest, Layout) {
  EXPECT_EQ(EncodeEntry({.epoch = 1, .length_bytes = 8192, .locator = "loc"}),
            "\x01\x01\x80\x40\x03loc"s);
  EXPECT_EQ(EncodeEntry({.epoch = 300, .length_bytes = 0, .locator = "\0"s}),
            "\x01\xAC\x02\x00\x01\x00"s);
  EXPECT_EQ(EncodeNumber(127), "\x01\x7F"s);
  EXPECT_EQ(EncodeNumber(~std::uint64_t{0}), "\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s);
  EXPECT_EQ(EncodeEpoch({.epoch = 127, .removed_count = 0}), "\x01\x7F"s);
  EXPECT_EQ(EncodeEpoch({.epoch = 128, .removed_count = 3}), "\x02\x80\x01\x03"s);
  EXPECT_EQ(EncodeFollowing({.epoch = 127, .removed_count = 0}), "\x03\x7F"s);
  EXPECT_EQ(EncodeFollowing({.epoch = 128, .removed_count = 3}), "\x04\x80\x01\x03"s);
  EXPECT_EQ(RepositoryKey(KeyKind::kEntry, {"ab", DigestAlgorithm::kXxh3_128}),
            "E\x02\x61\x62\x03"s);
  EXPECT_EQ(RepositoryKey(KeyKind::kEpoch, {"ab", DigestAlgorithm::kBlake3}), "R\x02\x61\x62\x01"s);
  EXPECT_EQ(RepositoryKey(KeyKind::kEntryCount, {"a", DigestAlgorithm::kSha256}), "C\x01\x61\x02"s);
  EXPECT_EQ(RepositoryKey(KeyKind::kRemovedCount, {"a", DigestAlgorithm::kSha256}),
            "X\x01\x61\x02"s);
  EXPECT_EQ(RepositoryKey(KeyKind::kCreated, {"a", DigestAlgorithm::kSha256}), "N\x01\x61\x02"s);
  EXPECT_EQ(EndOfPrefix("E\x02\x61\x62\x03"s), "E\x02\x61\x62\x04"s);
}

TEST(IndexCodecTest, EntriesComeBack) {
  Random random(TestSeed());
  for (int round = 0; round < 20'000; ++round) {
    std::string locator(random.Between(1, kMaxLocatorBytes), '\0');
    for (char& byte : locator) byte = static_cast<char>(random.Next());
    const EntryValue value{random.Next() >> random.Below(64),
                           static_cast<std::uint32_t>(random.Next() >> random.Between(32, 63)),
                           locator};
    const std::string bytes = EncodeEntry(value);
    const auto parsed = ParseEntry(bytes);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    ASSERT_EQ(*parsed, value);
    // Neither less nor more than all of it.
    ASSERT_FALSE(ParseEntry(std::string_view(bytes).substr(0, random.Below(bytes.size()))).ok());
    ASSERT_FALSE(ParseEntry(bytes + "x").ok());
  }
}

// As they were written before there was a counter.
TEST(IndexCodecTest, AnEpochWithoutACounterIsRead) {
  EXPECT_EQ(ParseEpoch("\x01\x7F"s).value(), (EpochValue{127, 0}));
  EXPECT_EQ(ParseEpoch("\x02\x80\x01\x03"s).value(), (EpochValue{128, 3}));
  for (const std::string& bytes : {""s, "\x02"s, "\x02\x05"s, "\x02\x05\x00"s, "\x03\x05\x01"s,
                                   "\x02\x05\x01x"s, "\x01\x05\x01"s, "\x02\x85\x00\x01"s}) {
    EXPECT_EQ(ParseEpoch(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
}

// A kerfd that knows one form alone neither believes nor writes where it finds the other.
TEST(IndexCodecTest, TheTwoFormsOfAnEpochRefuseEachOther) {
  EXPECT_EQ(ParseFollowing("\x03\x7F"s).value(), (EpochValue{127, 0}));
  EXPECT_EQ(ParseFollowing("\x04\x80\x01\x03"s).value(), (EpochValue{128, 3}));
  for (const EpochValue& value : {EpochValue{0, 0}, EpochValue{5, 0}, EpochValue{300, 7},
                                  EpochValue{~std::uint64_t{0}, ~std::uint64_t{0}}}) {
    EXPECT_EQ(ParseEpoch(EncodeEpoch(value)).value(), value);
    EXPECT_EQ(ParseFollowing(EncodeFollowing(value)).value(), value);
    EXPECT_EQ(ParseEpoch(EncodeFollowing(value)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseFollowing(EncodeEpoch(value)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseNumber(EncodeFollowing(value)).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(IsFollowing(EncodeFollowing(value)));
    EXPECT_FALSE(IsFollowing(EncodeEpoch(value)));
  }
  for (const std::string& bytes : {""s, "\x03"s, "\x03\x05x"s, "\x03\x85\x00"s, "\x04"s,
                                   "\x04\x05"s, "\x04\x05\x00"s, "\x04\x05\x01x"s}) {
    EXPECT_EQ(ParseFollowing(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(IsFollowing(""));
}

// It says who has to go, not that the index is broken.
TEST(IndexCodecTest, AnEpochOfALaterKerfIsSaidToBeOne) {
  for (const auto& status :
       {ParseEpoch("\x05\x01"s).status(), ParseFollowing("\xFF\x01"s).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(status.message().find("a later kerfd has written"), absl::string_view::npos)
        << status;
  }
}

TEST(IndexCodecTest, RefusesWhatItWouldNotWrite) {
  for (const std::string& bytes : {
           ""s,
           "\x02\x01\x01\x01L"s,                                          // a later version
           "\x01\x81\x00\x01\x01L"s,                                      // 1 in two bytes
           "\x01\x01\x01\x00"s,                                           // no locator
           "\x01\x01\x01\x02L"s,                                          // cut off
           "\x01\x01\xFF\xFF\xFF\xFF\x10\x01L"s,                          // 33 bits of length
           "\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02\x01\x01L"s,      // 65 bits of epoch
           "\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01\x01L"s,  // an endless one
           "\x01\x01\x01\x41"s + std::string(kMaxLocatorBytes + 1, 'x'),  // a locator too long
       }) {
    EXPECT_EQ(ParseEntry(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
  for (const std::string& bytes : {""s, "\x01"s, "\x02\x01"s, "\x01\x01\x01"s, "\x01\x80\x00"s}) {
    EXPECT_EQ(ParseNumber(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
  for (const std::string& key : {""s, "R"s, "R\x01\x61"s, "R\x02\x61\x01"s, "R\x01\x61\x01x"s,
                                 "R\x01/\x01"s, "R\x00\x01"s, "R\x01\x61\x00"s, "E\x01\x61\x01"s}) {
    EXPECT_EQ(ParseRepositoryKey(KeyKind::kEpoch, key).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(IndexCodecTest, DigestsAreAsLongAsTheirAlgorithmMakesThem) {
  const RepositoryId small{"a", DigestAlgorithm::kXxh3_128};
  Digest digest;
  digest.bytes[15] = 7;
  EXPECT_EQ(DigestKey(small, digest), std::string(15, '\0') + "\x07");
  EXPECT_EQ(ParseDigestKey(small, DigestKey(small, digest)).value(), digest);
  EXPECT_FALSE(ParseDigestKey(small, std::string(32, 'x')).ok());
  EXPECT_FALSE(ParseDigestKey({"a", DigestAlgorithm::kSha256}, std::string(16, 'x')).ok());
}

}  // namespace
}  // namespace kerf::index_codec
