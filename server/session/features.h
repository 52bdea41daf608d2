// What client and server understand of the protocol beyond release 0.1.0, by the names that Open,
// Opened and GetCapabilities announce: docs/spec/protocol.md, "Features".
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kerf {

// Committed, FileDone and LookupChunks tell the index's epoch.
inline constexpr std::string_view kIndexEpochFeature = "index-epoch";
// A frame of a kind that the server does not know is passed over.
inline constexpr std::string_view kUnknownFramesFeature = "unknown-frames";

// It takes ChunkDigests of whoever asks for it in Open.
inline constexpr std::string_view kChunkDigestsFeature = "chunk-digests";

// It takes memory that a client of its machine shares, and SharedData. Only where it listens at a
// unix socket without a door.
inline constexpr std::string_view kSharedDataFeature = "shared-data";

inline constexpr std::array kServerFeatures = {kIndexEpochFeature, kUnknownFramesFeature,
                                               kChunkDigestsFeature};

// What an Open may announce: names of 1 to kMaxFeatureBytes of [a-z0-9-].
inline constexpr std::size_t kMaxFeatures = 64;
inline constexpr std::size_t kMaxFeatureBytes = 64;

}  // namespace kerf
