#include "server/worker/answer_encoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

TEST(AnswerEncoder, IsWhatTheGeneratedCodeWrites) {
  Random random(TestSeed());
  std::string encoded;
  v1::UploadResponse expected;
  for (int answer = 0; answer < 200; ++answer) {
    const std::size_t digest_bytes = random.OneIn(2) ? 16 : 32;
    const std::uint64_t file_number = random.Next() >> random.Below(64);
    std::vector<Digest> digests(random.Between(1, 20));
    std::vector<std::string> locators;
    for (Digest& digest : digests) {
      random.Fill({digest.bytes.data(), digest_bytes});
      locators.emplace_back(random.Below(65), 'l');
    }
    std::vector<ChunkAnswer> chunks;
    v1::Chunks& expected_chunks = *expected.add_answers()->mutable_chunks();
    expected_chunks.set_file_number(file_number | 1);
    for (std::size_t index = 0; index < digests.size(); ++index) {
      const auto verdict = static_cast<Verdict>(random.Between(1, 3));
      chunks.push_back({(random.Next() >> random.Below(64)) | 1, &digests[index], verdict,
                        locators[index], random.Next() | 1});
      v1::Chunk& chunk = *expected_chunks.add_chunks();
      chunk.set_end_offset(chunks.back().end_offset);
      chunk.set_digest(digests[index].bytes.data(), digest_bytes);
      chunk.set_verdict(static_cast<v1::Verdict>(verdict));
      chunk.set_locator(locators[index]);
      chunk.set_check(chunks.back().check);
    }
    AppendChunks(file_number | 1, chunks, digest_bytes, &encoded);

    v1::UploadAnswer other;
    other.mutable_committed()->set_entry_count(static_cast<std::uint32_t>(answer));
    AppendAnswer(other, &encoded);
    *expected.add_answers() = other;
  }
  EXPECT_EQ(encoded, expected.SerializeAsString());
}

}  // namespace
}  // namespace kerf
