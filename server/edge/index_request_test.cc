// Whose rooms a call takes, before anybody has read it.
#include "server/edge/index_request.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kerf/v1/index.pb.h"

namespace kerf {
namespace {

// As gRPC has it: in slices of so many bytes.
grpc::ByteBuffer Buffer(const std::string& bytes, std::size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.emplace_back(bytes.substr(at, slice_bytes));
  }
  return {slices.data(), slices.size()};
}

std::string Peek(const std::string& bytes) { return PeekRepository(Buffer(bytes, 7)).name; }

// A field as it is encoded: shorter than 128 bytes, of a number below 16.
std::string Field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}
std::string Named(const std::string& name) { return Field(1, Field(1, name)); }

std::string Request(const std::string& name, int digest_count) {
  v1::LookupChunksRequest request;
  request.mutable_repository()->set_repository(name);
  request.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_SHA256);
  request.set_store_epoch(7);
  for (int count = 0; count < digest_count; ++count) request.add_digests(std::string(32, 'd'));
  return request.SerializeAsString();
}

TEST(PeekRepositoryTest, ReadsTheNameOfAnyRequest) {
  for (const std::size_t slice_bytes : {1, 3, 100, 1 << 20}) {
    EXPECT_EQ(PeekRepository(Buffer(Request("home", 0), slice_bytes)).name, "home");
    EXPECT_EQ(PeekRepository(Buffer(Request(std::string(64, 'n'), 100), slice_bytes)).name,
              std::string(64, 'n'));
  }
  EXPECT_EQ(PeekRepository(Buffer(Request("home", kMaxIndexRequestEntries), 1 << 16)).name, "home");
}

// Else whoever may do nothing there fills another repository's rooms with calls about his own.
TEST(PeekRepositoryTest, OfTwoNamesTheLastOneCounts) {
  EXPECT_EQ(Peek(Named("victim") + Named("mine")), "mine");
  EXPECT_EQ(Peek(Named("victim") + Request("mine", 1'000)), "mine");
  EXPECT_EQ(Peek(Request("victim", 1'000) + Named("mine")), "mine");
  EXPECT_EQ(Peek(Field(1, Field(1, "victim") + Field(1, "mine"))), "mine");
  // Nor does a name that is too long leave the one before it.
  EXPECT_EQ(Peek(Named("victim") + Named(std::string(65, 'n'))), "");
  EXPECT_EQ(Peek(Named("victim") + Named("")), "");
}

// A message that comes again is merged with the one before.
TEST(PeekRepositoryTest, WhatSaysNoNameLeavesTheOneBefore) {
  EXPECT_EQ(Peek(Named("mine") + Field(1, "")), "mine");
  EXPECT_EQ(Peek(Named("mine") + Field(1, std::string{2 << 3, 3})), "mine");
}

TEST(PeekRepositoryTest, WhatStandsBeforeTheNameDoesNotHideIt) {
  EXPECT_EQ(Peek(Field(15, std::string(100, 'u')) + Named("mine")), "mine");
  EXPECT_EQ(Peek(Field(1, Field(15, std::string(90, 'u')) + Field(1, "mine"))), "mine");
}

TEST(PeekRepositoryTest, WhatIsNoRequestIsNobodys) {
  EXPECT_EQ(Peek(""), "");
  EXPECT_EQ(Peek(Field(15, "x")), "");
  const std::string sound = Named("mine");
  for (std::size_t bytes = 1; bytes < sound.size(); ++bytes) {
    EXPECT_EQ(Peek(sound.substr(0, bytes)), "") << bytes;
  }
  EXPECT_EQ(Peek(sound + '\x07'), "");
  // A length of 2^32 - 1, and one of more than the field around it has.
  EXPECT_EQ(Peek("\x0a\xff\xff\xff\xff\x0f"), "");
  EXPECT_EQ(Peek(Field(1, "\x0a\x05home")), "");
}

// It is read by the thread that takes calls: no request has more, and none with more is taken.
TEST(PeekRepositoryTest, OfFieldsWithoutEndNoMoreAreReadThanARequestHas) {
  std::string many = Named("victim");
  for (int count = 0; count < kMaxIndexRequestEntries + 100; ++count) many += Field(15, "");
  v1::GetIndexStatsRequest request;
  EXPECT_EQ(PeekRepository(Buffer(many + Named("mine"), 1 << 16)).name, "");
  EXPECT_FALSE(ParseRequest(Buffer(many + Named("mine"), 1 << 16), &request).ok());
  std::string within;
  for (int count = 0; count < kMaxIndexRequestEntries + 100; ++count) within += Field(14, "");
  std::string length;
  for (std::size_t rest = within.size(); rest > 0; rest >>= 7) {
    length += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  }
  EXPECT_EQ(PeekRepository(Buffer("\x0a" + length + within, 1 << 16)).name, "");
}

// Whatever is sent, it is what protobuf makes of it.
TEST(PeekRepositoryTest, AgreesWithTheParser) {
  Random random(TestSeed());
  int named_count = 0;
  int digest_count = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;
    for (std::uint64_t count = random.Below(5); count > 0; --count) {
      const std::string name(random.OneIn(8) ? random.Below(70) : random.Below(4),
                             static_cast<char>('a' + random.Below(26)));
      switch (random.Below(7)) {
        case 0:
          bytes += Request(name, static_cast<int>(random.Below(3)));
          break;
        case 1:
          bytes += Field(1, "");
          break;
        case 2:
          bytes += Field(static_cast<int>(random.Between(2, 15)), name);
          break;
        case 3:
          bytes += Field(1, Field(static_cast<int>(random.Between(1, 3)), name) + Field(1, "x"));
          break;
        case 4:
          // A varint of one to ten bytes.
          bytes +=
              Field(1, std::string{2 << 3} +
                           std::string(random.Below(10), static_cast<char>(0x80 | name.size())) +
                           static_cast<char>(random.Below(4)));
          break;
        default:
          bytes += Named(name);
      }
    }
    if (random.OneIn(4) && !bytes.empty()) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Next());
    }
    v1::LookupChunksRequest request;
    // What is refused may be anybody's.
    if (!request.ParseFromString(bytes)) continue;
    const std::string& name = request.repository().repository();
    const std::string expected = name.size() > kMaxRepositoryNameBytes ? "" : name;
    const PeekedRepository peeked = PeekRepository(Buffer(bytes, random.Between(1, 40)));
    ASSERT_EQ(peeked.name, expected) << round;
    ASSERT_EQ(peeked.digest_algorithm, request.repository().digest_algorithm()) << round;
    digest_count += static_cast<int>(peeked.digest_algorithm != 0);
    named_count += static_cast<int>(!expected.empty());
  }
  EXPECT_GT(named_count, 1'000);
  EXPECT_GT(digest_count, 1'000);
}

}  // namespace
}  // namespace kerf
