#include "kernels/cuda/pipeline/cpu_comparison.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>

#include "base/strings.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

std::string Describe(const ComparedPiece& piece, std::size_t chunk, std::size_t offset,
                     const std::string& what) {
  return Cat(FormatProfile(piece.plan->profile), " with ",
             DigestAlgorithmName(piece.plan->digest_algorithm), ", a piece of ", piece.bytes.size(),
             piece.is_end ? " bytes, its stream's last: " : " bytes: ", "chunk ", chunk,
             " at offset ", offset, " ", what);
}

// Whether the chunks end where the CPU's do, one behind the other.
std::string CutsDiffer(const ComparedPiece& piece) {
  const Chunker& chunker = *piece.plan->chunker;
  std::size_t offset = 0;
  for (std::size_t index = 0; index < piece.cuts.chunks.size(); ++index) {
    const std::size_t size_bytes = piece.cuts.chunks[index].size_bytes;
    const auto rest = piece.bytes.subspan(offset);
    if (rest.empty()) return Describe(piece, index, offset, "lies behind the piece");
    const std::size_t expected = chunker.NextCut(rest);
    if (size_bytes != expected) {
      return Describe(piece, index, offset,
                      Cat("has ", size_bytes, " bytes, the CPU's ", expected));
    }
    offset += size_bytes;
  }
  const std::size_t left = piece.bytes.size() - offset;
  if (piece.is_end ? left > 0 : left >= chunker.max_chunk_bytes()) {
    return Describe(piece, piece.cuts.chunks.size(), offset, "is missing");
  }
  return "";
}

}  // namespace

std::string DifferenceOf(const ComparedPiece& piece) {
  if (std::string difference = CutsDiffer(piece); !difference.empty()) return difference;
  std::vector<std::span<const std::uint8_t>> chunks;
  auto rest = piece.bytes;
  for (const PieceChunk& chunk : piece.cuts.chunks) {
    chunks.push_back(rest.first(chunk.size_bytes));
    rest = rest.subspan(chunk.size_bytes);
  }
  const DigestAlgorithm algorithm = piece.plan->digest_algorithm;
  std::vector<Digest> digests(chunks.size());
  FingerprintMany(algorithm, chunks, digests);
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const Digest& digest = piece.cuts.chunks[index].digest;
    if (digest == digests[index]) continue;
    const auto offset = static_cast<std::size_t>(chunks[index].data() - piece.bytes.data());
    const std::size_t size_bytes = DigestSizeBytes(algorithm);
    return Describe(piece, index, offset,
                    Cat("of ", chunks[index].size(), " bytes has the fingerprint ",
                        DigestToHex(digest, size_bytes), ", the CPU's is ",
                        DigestToHex(digests[index], size_bytes)));
  }
  return "";
}

std::string DifferenceOfAny(std::span<const ComparedPiece> pieces) {
  std::vector<std::string> differences(pieces.size());
  std::atomic<std::size_t> next{0};
  const auto compare = [&] {
    for (std::size_t index = next++; index < pieces.size(); index = next++) {
      differences[index] = DifferenceOf(pieces[index]);
    }
  };
  const std::size_t thread_count =
      std::min<std::size_t>(pieces.size(), std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t thread = 1; thread < thread_count; ++thread) threads.emplace_back(compare);
  compare();
  for (std::thread& thread : threads) thread.join();
  for (std::size_t index = 0; index < differences.size(); ++index) {
    if (!differences[index].empty()) return Cat("piece ", index, ": ", differences[index]);
  }
  return "";
}

}  // namespace kerf::cuda
