#include "server/worker/answer_encoder.h"

#include <bit>
#include <cstring>

namespace kerf {
namespace {

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2 };

constexpr char Tag(int field, WireType type) { return static_cast<char>((field << 3) | type); }

// Field numbers of kerf/v1/chunking.proto.
constexpr char kAnswers = Tag(1, kLengthDelimited);
constexpr char kChunksAnswer = Tag(2, kLengthDelimited);
constexpr char kFileNumber = Tag(1, kVarint);
constexpr char kChunk = Tag(2, kLengthDelimited);
constexpr char kEndOffset = Tag(1, kVarint);
constexpr char kDigest = Tag(2, kLengthDelimited);
constexpr char kVerdict = Tag(3, kVarint);
constexpr char kLocator = Tag(4, kLengthDelimited);
constexpr char kCheck = Tag(5, kFixed64);

std::size_t VarintBytes(std::uint64_t value) {
  return static_cast<std::size_t>(std::bit_width(value | 1) + 6) / 7;
}

void AppendVarint(std::uint64_t value, std::string* encoded) {
  while (value >= 0x80) {
    encoded->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  encoded->push_back(static_cast<char>(value));
}

// Digests and locators are below 128 bytes, so that each of their lengths is one byte.
std::size_t ChunkBytes(const ChunkAnswer& chunk, std::size_t digest_bytes) {
  return 1 + VarintBytes(chunk.end_offset) + 2 + digest_bytes + 2 +
         (chunk.locator.empty() ? 0 : 2 + chunk.locator.size()) + 1 + sizeof chunk.check;
}

}  // namespace

void AppendChunks(std::uint64_t file_number, std::span<const ChunkAnswer> chunks,
                  std::size_t digest_bytes, std::string* encoded) {
  std::size_t chunks_bytes = 1 + VarintBytes(file_number);
  for (const ChunkAnswer& chunk : chunks) {
    const std::size_t chunk_bytes = ChunkBytes(chunk, digest_bytes);
    chunks_bytes += 1 + VarintBytes(chunk_bytes) + chunk_bytes;
  }
  encoded->push_back(kAnswers);
  AppendVarint(1 + VarintBytes(chunks_bytes) + chunks_bytes, encoded);
  encoded->push_back(kChunksAnswer);
  AppendVarint(chunks_bytes, encoded);
  encoded->push_back(kFileNumber);
  AppendVarint(file_number, encoded);
  for (const ChunkAnswer& chunk : chunks) {
    encoded->push_back(kChunk);
    AppendVarint(ChunkBytes(chunk, digest_bytes), encoded);
    encoded->push_back(kEndOffset);
    AppendVarint(chunk.end_offset, encoded);
    encoded->push_back(kDigest);
    encoded->push_back(static_cast<char>(digest_bytes));
    encoded->append(reinterpret_cast<const char*>(chunk.digest->bytes.data()), digest_bytes);
    encoded->push_back(kVerdict);
    encoded->push_back(static_cast<char>(chunk.verdict));
    if (!chunk.locator.empty()) {
      encoded->push_back(kLocator);
      encoded->push_back(static_cast<char>(chunk.locator.size()));
      encoded->append(chunk.locator);
    }
    encoded->push_back(kCheck);
    for (int shift = 0; shift < 64; shift += 8) {
      encoded->push_back(static_cast<char>(chunk.check >> shift));
    }
  }
}

void AppendAnswer(const v1::UploadAnswer& answer, std::string* encoded) {
  encoded->push_back(kAnswers);
  AppendVarint(answer.ByteSizeLong(), encoded);
  answer.AppendToString(encoded);
}

}  // namespace kerf
