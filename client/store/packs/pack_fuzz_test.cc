// Any bytes as a pack file: the trailer, the footer and the blocks that it names. The checksum is
// made right first, so that what lies behind it is reached.
#include <zstd.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "client/store/format/pack_format.h"
#include "client/store/packs/block.h"
#include "client/store/testing/edits.h"

using kerf::agent::PackChunk;

namespace {

// Two blocks and their footer, with the length of the footer in front.
std::vector<std::uint8_t> Sample() {
  std::vector<std::uint8_t> file(2 + kerf::agent::kPackHeaderBytes);
  kerf::agent::PackFooter footer;
  const std::vector<std::uint8_t> raw(100, 'r');
  std::vector<std::uint8_t> compressed(ZSTD_compressBound(raw.size()));
  compressed.resize(ZSTD_compress(compressed.data(), compressed.size(), raw.data(), raw.size(), 1));
  footer.blocks.push_back({file.size(), static_cast<std::uint32_t>(compressed.size()), 100, true});
  file.insert(file.end(), compressed.begin(), compressed.end());
  footer.blocks.push_back({file.size(), 100, 100, false});
  file.insert(file.end(), raw.begin(), raw.end());
  for (std::uint32_t index = 0; index < 4; ++index) {
    footer.chunks.push_back({kerf::Digest(), index / 2, index % 2 * 50, 50});
  }
  const std::vector<std::uint8_t> end = kerf::agent::EncodePackEnd(footer, file.size());
  const std::size_t footer_bytes = end.size() - kerf::agent::kPackTrailerBytes;
  file[0] = static_cast<std::uint8_t>(footer_bytes >> 8);
  file[1] = static_cast<std::uint8_t>(footer_bytes);
  file.insert(file.end(), end.begin(), end.begin() + static_cast<std::ptrdiff_t>(footer_bytes));
  return file;
}

bool Try(std::span<const std::uint8_t> bytes) {
  const std::uint8_t* data = bytes.data();
  const std::size_t size = bytes.size();
  // Read as a trailer, as a locator, and as a header as they are.
  if (size >= kerf::agent::kPackTrailerBytes) {
    const auto end = bytes.last(kerf::agent::kPackTrailerBytes);
    if (const auto trailer = kerf::agent::DecodePackTrailer(end, size); trailer.ok()) {
      KERF_CHECK(trailer->footer_offset + trailer->footer_bytes <= size);
    }
  }
  (void)kerf::agent::CheckPackHeader(bytes, {});
  (void)kerf::agent::CheckPackVersion(bytes, bytes);
  (void)kerf::agent::DecodeLocator({reinterpret_cast<const char*>(data), size});

  // Blocks lie in the first part, the footer is the second one.
  if (size < 2) return false;
  const std::size_t footer_bytes = (std::size_t{data[0]} << 8 | data[1]) % (size - 1);
  const auto footer = bytes.last(footer_bytes);
  kerf::agent::PackTrailer trailer;
  trailer.footer_offset = size - footer_bytes;
  trailer.footer_bytes = static_cast<std::uint32_t>(footer_bytes);
  trailer.footer_checksum = kerf::Fingerprint(kerf::DigestAlgorithm::kBlake3, footer);
  const auto decoded = kerf::agent::DecodePackFooter(footer, trailer);
  if (!decoded.ok()) return false;
  for (const kerf::agent::PackBlock& block : decoded->blocks) {
    const auto stored = bytes.subspan(block.offset, block.stored_bytes);
    const auto raw = kerf::agent::DecodeBlock(block, {stored.begin(), stored.end()});
    if (raw.ok()) KERF_CHECK(raw->size() == block.raw_bytes);
  }
  for (const PackChunk& chunk : decoded->chunks) {
    KERF_CHECK(chunk.offset_in_block + std::uint64_t{chunk.length_bytes} <=
               decoded->blocks[chunk.block_index].raw_bytes);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::uint8_t> sample = Sample();
  static const bool sample_is_valid = Try(sample);
  KERF_CHECK(sample_is_valid);
  (void)Try({data, size});
  (void)Try(kerf::agent::ApplyEdits(sample, {data, size}));
  return 0;
}
