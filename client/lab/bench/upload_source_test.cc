#include "client/lab/bench/upload_source.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/lab/bench/local_cut.h"
#include "client/lab/bench/parsed_message.h"

namespace kerf::bench {
namespace {

class UploadSourceTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  UploadSourceTest() : file_(GetParam()) {
    StartGrpc();
    Random random(TestSeed());
    random.Fill(file_);
  }

  std::vector<std::uint8_t> file_;
};

TEST_P(UploadSourceTest, NamesAreThoseOfTheWholeFile) {
  // Chunks of some hundred bytes: as many as a message may name come together.
  for (const char* name : {"mincdc-8k", "mincdc:min=64,max=1024"}) {
    const Profile profile = *ParseProfile(name);
    const LocalChunks expected = CutAndHash(*MakeChunker(profile), DigestAlgorithm::kBlake3, file_);
    NamedFile source(profile, DigestAlgorithm::kBlake3, file_);
    ASSERT_TRUE(source.cuts());
    v1::UploadRequest all;
    RecipeHash hash;
    std::size_t position = 0;
    std::uint64_t offset = 0;
    while (std::optional<grpc::ByteBuffer> message = source.Next()) {
      const v1::UploadRequest request = Parsed(*message);
      std::uint64_t named_bytes = 0;
      for (const v1::UploadFrame& frame : request.frames()) {
        const v1::ChunkDigests& names = frame.chunk_digests();
        ASSERT_LE(names.lengths_bytes_size(), 512);
        for (int index = 0; index < names.lengths_bytes_size(); ++index) {
          ASSERT_LT(position, expected.size());
          named_bytes += names.lengths_bytes(index);
          offset += names.lengths_bytes(index);
          EXPECT_EQ(offset, expected[position].end_offset);
          const auto* digest = expected[position].digest.bytes.data();
          EXPECT_EQ(names.digests().substr(32 * index, 32), std::string(digest, digest + 32));
          hash.Add(expected[position].digest, 32, names.lengths_bytes(index));
          ++position;
        }
      }
      EXPECT_LE(named_bytes, 2u << 20);
      all.MergeFrom(request);
    }
    EXPECT_EQ(position, expected.size());
    EXPECT_EQ(all.frames(0).file_begin().size_hint_bytes(), file_.size());
    const v1::FileEnd& end = all.frames(all.frames_size() - 1).file_end();
    EXPECT_EQ(end.size_bytes(), file_.size());
    const Xxh3Digest value = hash.Value();
    EXPECT_EQ(end.content_hash(), std::string(value.begin(), value.end()));
    EXPECT_FALSE(source.Next().has_value()) << "once at its end, always";
  }
}

TEST_P(UploadSourceTest, BytesAreThoseOfItsMessages) {
  const FileMessages messages(file_, 100'000);
  SentFile source(&messages);
  ASSERT_FALSE(source.cuts());
  for (std::size_t index = 0; index < messages.count(); ++index) {
    std::optional<grpc::ByteBuffer> message = source.Next();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(Parsed(*message).SerializeAsString(),
              Parsed(messages.Message(index)).SerializeAsString());
  }
  EXPECT_FALSE(source.Next().has_value());
}

INSTANTIATE_TEST_SUITE_P(Sizes, UploadSourceTest,
                         ::testing::Values(0, 1, 100, 8192, 300'000, (2u << 20) + 1, 5'000'000));

}  // namespace
}  // namespace kerf::bench
