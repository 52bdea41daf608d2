// Gets a pack's bytes back with the help of its parity.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/store/parity/parity_code.h"
#include "client/store/parity/parity_file.h"

namespace kerf::agent {

// Reads a pack as it was when its parity was made, past what is damaged, cut off or cannot be read
// now. Thread-safe.
class Mender {
 public:
  // The pack at STORE/packs/XX/ID.pack. NotFound if it has no parity, or is not there itself;
  // Unavailable if ISA-L is not on this machine; else as ParityFile::Open.
  static absl::StatusOr<Mender> Open(const std::string& pack_path, const PackId& id);

  const ParityFile& parity() const { return parity_; }

  // Any range within the parity's pack_bytes. Each sector has its checksum; a chunk's digest or the
  // whole file's is what proves it. DataLoss if more is lost than the parity can give back.
  absl::StatusOr<std::vector<std::uint8_t>> Read(std::uint64_t offset,
                                                 std::uint64_t size_bytes) const;

  // The whole file, piece by piece, to `sink`, which may be null. DataLoss if more is lost than can
  // be given back, or if it does not become what it was: then what `sink` got is of no use.
  absl::Status ReadAll(
      const std::function<absl::Status(std::uint64_t offset, std::span<const std::uint8_t> bytes)>&
          sink) const;

 private:
  Mender(std::string pack_path, UniqueFd pack, ParityFile parity, ParityCode code)
      : pack_path_(std::move(pack_path)),
        pack_(std::move(pack)),
        parity_(std::move(parity)),
        code_(std::move(code)) {}

  // The content of lost sectors, by their number in the pack.
  using Recovered = std::map<std::uint64_t, std::vector<std::uint8_t>>;
  absl::Status RecoverGroup(std::uint32_t group, Recovered& recovered) const;
  bool ReadDataSector(std::uint64_t sector, std::span<std::uint8_t> bytes) const;

  std::string pack_path_;
  UniqueFd pack_;
  ParityFile parity_;
  ParityCode code_;
};

// Whether the pack at `pack_path` can be made again of itself and its parity: the errors of
// Mender::Open and Mender::ReadAll. Reads all of it.
absl::Status CheckMendable(const std::string& pack_path, const PackId& id);

}  // namespace kerf::agent
