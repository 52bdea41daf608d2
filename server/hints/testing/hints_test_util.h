// Scopes, chunks and segments for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/profile.h"
#include "kernels/rapid/run_seal.h"
#include "server/hints/hint_cache.h"
#include "server/hints/scope.h"
#include "server/hints/segment.h"

namespace kerf {

inline std::shared_ptr<const HintScope> TestScope(
    std::string repository = "photos", std::string_view profile = "mincdc-8k",
    DigestAlgorithm algorithm = DigestAlgorithm::kBlake3) {
  const auto parsed = ParseProfile(profile);
  KERF_CHECK(parsed.ok());
  return std::make_shared<const HintScope>(RepositoryId{std::move(repository), algorithm}, *parsed);
}

inline std::vector<RunChunk> RandomChunks(Random& random, std::size_t count) {
  std::vector<RunChunk> chunks(count);
  for (RunChunk& chunk : chunks) {
    random.Fill(chunk.digest.bytes);
    chunk.length_bytes = static_cast<std::uint32_t>(random.Between(1, 20'000));
    chunk.marker = static_cast<std::uint8_t>(random.Next());
  }
  return chunks;
}

// As a recorder makes it.
inline HintCache::NewSegment NewSegmentOf(const HintScope& scope, const RunKey& key,
                                          std::vector<RunChunk> chunks) {
  HintCache::NewSegment segment;
  segment.anchors = AnchorsOf(chunks, true);
  segment.run = std::make_shared<const CutRun>(CutRun::OfExactCuts(
      scope.profile(), scope.digest_algorithm(), std::move(chunks), /*ended_by_eof=*/false));
  segment.sealed_run = SealRun(key, scope.repository(), *segment.run);
  return segment;
}

inline SegmentId IdOf(const HintCache::NewSegment& segment) {
  return Segment{std::nullopt, 0, segment.sealed_run}.id();
}

inline StoredSegment Stored(const HintCache::NewSegment& segment, std::uint32_t written_day = 1) {
  return {IdOf(segment), EncodeSegment({segment.next, written_day, segment.sealed_run}),
          segment.anchors};
}

}  // namespace kerf
