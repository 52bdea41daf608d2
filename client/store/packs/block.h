// The bytes of one block of a pack.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/store/format/pack_format.h"
#include "client/store/parity/pack_sums.h"

namespace kerf::agent {

// The raw bytes of a block from what a pack stores of it: exactly block.raw_bytes. Takes any bytes;
// DataLoss if they are not what the footer says.
absl::StatusOr<std::vector<std::uint8_t>> DecodeBlock(const PackBlock& block,
                                                      std::vector<std::uint8_t> stored);

// Reads and decodes a block of the open pack `fd`. Errors name `path`. `sums` gets what is read.
absl::StatusOr<std::vector<std::uint8_t>> ReadBlock(int fd, const std::string& path,
                                                    const PackBlock& block,
                                                    PackSums* sums = nullptr);

// The same of the pack at `path`, of the store, with the help of its parity. NotFound if it has
// none or is not there itself; Unavailable if parity cannot be used on this machine.
absl::StatusOr<std::vector<std::uint8_t>> ReadBlockWithParity(const std::string& path,
                                                              const PackId& id,
                                                              const PackBlock& block);

}  // namespace kerf::agent
