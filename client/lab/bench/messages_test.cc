#include "client/lab/bench/messages.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include "base/random.h"
#include "base/test_seed.h"
#include "client/lab/bench/parsed_message.h"

namespace kerf::bench {
namespace {

TEST(Messages, CarryTheFile) {
  StartGrpc();
  Random random(TestSeed());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096},
                                 std::size_t{4097}, std::size_t{100'000}}) {
    std::vector<std::uint8_t> file(size);
    random.Fill(file);
    const FileMessages messages(file, 4096);
    EXPECT_EQ(messages.count(), size == 0 ? 1 : (size + 4095) / 4096);
    std::string data;
    v1::UploadRequest all;
    for (std::size_t index = 0; index < messages.count(); ++index) {
      all.MergeFrom(Parsed(messages.Message(index)));
    }
    ASSERT_GE(all.frames_size(), 3);
    EXPECT_EQ(all.frames(0).file_begin().size_hint_bytes(), size);
    for (int index = 1; index + 1 < all.frames_size(); ++index) {
      ASSERT_EQ(all.frames(index).frame_case(), v1::UploadFrame::kData);
      EXPECT_LE(all.frames(index).data().size(), 4096u);
      data += all.frames(index).data();
    }
    EXPECT_EQ(data, std::string(file.begin(), file.end()));
    const v1::FileEnd& end = all.frames(all.frames_size() - 1).file_end();
    EXPECT_EQ(end.size_bytes(), size);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(file.data(), file.size()));
    EXPECT_EQ(end.content_hash(),
              std::string(reinterpret_cast<const char*>(hash.digest), sizeof hash.digest));
  }
}

TEST(Messages, CommitNamesTheChosenChunks) {
  LocalChunks chunks(5);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    chunks[index].digest.bytes.fill(static_cast<std::uint8_t>(index));
  }
  const std::vector<std::size_t> positions = {1, 4};
  const v1::UploadRequest request = Parsed(CommitMessage(chunks, positions, 32));
  ASSERT_EQ(request.frames_size(), 1);
  const v1::Commit& commit = request.frames(0).commit();
  ASSERT_EQ(commit.entries_size(), 2);
  EXPECT_EQ(commit.entries(0).digest(), std::string(32, '\1'));
  EXPECT_EQ(commit.entries(1).digest(), std::string(32, '\4'));
  EXPECT_FALSE(commit.entries(0).locator().empty());
}

}  // namespace
}  // namespace kerf::bench
