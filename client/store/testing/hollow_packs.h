// Packs that say what they hold and hold nothing: for stores of more chunks than a test can write.
#pragma once

#include <cstdint>
#include <string>

#include "client/store/format/chunk_ref.h"
#include "client/store/format/pack_format.h"

namespace kerf::agent {

// The chunk of this number, of kHollowChunkBytes. No bytes have its digest.
ChunkRef HollowChunk(std::uint64_t number);

// A pack of chunks that are numbered from `first_number` on. Its file is as long as a sound one,
// and all of it but the header, the footer and the trailer is a hole. Not durable.
void WriteHollowPack(const std::string& packs_directory, const PackId& id,
                     std::uint64_t first_number, std::uint32_t chunk_count);

// The same in packs of kHollowPackChunks, of which the ids are random.
void WriteHollowPacks(const std::string& packs_directory, std::uint64_t seed,
                      std::uint64_t chunk_count);

inline constexpr std::uint32_t kHollowChunkBytes = 8192;
// What fills a pack of 64 MiB.
inline constexpr std::uint32_t kHollowPackChunks = 8192;

}  // namespace kerf::agent
