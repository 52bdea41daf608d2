// Answers in the wire form of kerf.v1.UploadResponse. Encoded answers may be appended to one
// another: together they are one UploadResponse.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// One element of kerf.v1.Chunks.
struct ChunkAnswer {
  std::uint64_t end_offset = 0;
  const Digest* digest = nullptr;
  Verdict verdict = Verdict::kNew;
  std::string_view locator;
  std::uint64_t check = 0;
};

// Written by hand: a stream answers a hundred thousand chunks a second, and three allocations for
// each would be felt.
void AppendChunks(std::uint64_t file_number, std::span<const ChunkAnswer> chunks,
                  std::size_t digest_bytes, std::string* encoded);

void AppendAnswer(const v1::UploadAnswer& answer, std::string* encoded);

}  // namespace kerf
