// What a chunk takes of a store beside its bytes, for who reckons with it (`kerf plan`, `kerf
// analyze`). Digests have 32 bytes. StoreCostsTest holds them to what is written
// (docs/spec/store.md, Packs and Metadata streams).
#pragma once

namespace kerf::agent::store_costs {

// In the footer of its pack, which has it once.
inline constexpr double kFooterBytesPerChunk = 44;
// In the same place, of a block of compressed chunks.
inline constexpr double kFooterBytesPerBlock = 17;
// In a recipe, each time that it occurs in a snapshot; before recipes are cut and deduplicated
// themselves. One more from 16 KiB on.
inline constexpr double kRecipeBytesPerChunk = 34;

}  // namespace kerf::agent::store_costs
