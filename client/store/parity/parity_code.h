// Reed-Solomon over sectors: any `data_count` of a group's sectors give back all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::agent {

// Intel's ISA-L, as far as it is used. It is loaded when a store has parity, and not linked: kerf
// also runs on machines that do not have it.
struct ErasureLibrary;

// The code of groups of one shape. Byte B of parity sector P is the sum, over all data sectors D,
// of their byte B times the inverse of (data_count + P) xor D; in the field of 256 elements with
// the polynomial x^8 + x^4 + x^3 + x^2 + 1. Immutable.
class ParityCode {
 public:
  // `data_count` and `parity_count` are at least 1, and 255 together at most. Unavailable if the
  // library is not on this machine; says how to get it.
  static absl::StatusOr<ParityCode> Make(std::uint32_t data_count, std::uint32_t parity_count);

  // Of data_count buffers of `size_bytes` makes parity_count.
  void Encode(std::span<std::uint8_t* const> data, std::span<std::uint8_t* const> parity,
              std::size_t size_bytes) const;

  // Makes data sectors of others. `sources` are data_count different sectors of the group (parity
  // sectors count on behind the data sectors), and `source_bytes` their content; `lost` are all
  // data sectors that are not among them, which go to `out`. False if the sources do not determine
  // them, which does not happen with this code.
  bool Recover(std::span<const std::uint32_t> sources, std::span<std::uint8_t* const> source_bytes,
               std::span<const std::uint32_t> lost, std::span<std::uint8_t* const> out,
               std::size_t size_bytes) const;

 private:
  ParityCode(const ErasureLibrary& library, std::uint32_t data_count, std::uint32_t parity_count);

  std::uint8_t Coefficient(std::uint32_t sector, std::uint32_t data) const {
    return matrix_[std::size_t{sector} * data_count_ + data];
  }
  void Multiply(std::vector<std::uint8_t> rows, std::span<std::uint8_t* const> in,
                std::span<std::uint8_t* const> out, std::size_t size_bytes) const;

  const ErasureLibrary* library_;
  std::uint32_t data_count_;
  std::uint32_t parity_count_;
  // A row of data_count coefficients for each sector of a group.
  std::vector<std::uint8_t> matrix_;
};

}  // namespace kerf::agent
