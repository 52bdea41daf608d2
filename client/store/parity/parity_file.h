// Reads the parity of one pack, whatever of the file is damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "client/store/parity/parity_layout.h"

namespace kerf::agent {

// Takes 16 bytes of memory for each sector. Thread-safe.
class ParityFile {
 public:
  // NotFound if there is none. DataLoss if both heads are damaged, or are those of another pack:
  // then it is of no use. FailedPrecondition if a newer kerf wrote it.
  static absl::StatusOr<ParityFile> Open(const std::string& path, const PackId& pack);

  // The head alone; the errors of Open.
  static absl::StatusOr<ParityHead> ReadAnyHead(const std::string& path, const PackId& pack);

  const std::string& path() const { return path_; }
  const ParityHead& head() const { return head_; }
  const ParityShape& shape() const { return head_.shape; }

  // True if these are the bytes of the row's sector (see ParityShape::row_count). False as well
  // where both copies of the checksum are damaged.
  bool IsSector(std::uint64_t row, std::span<const std::uint8_t> bytes) const;

  // False if it is lost.
  bool ReadParitySector(std::uint64_t index, std::span<std::uint8_t> sector) const;

  // The first thing that is not as it was written, of both copies of everything and of each parity
  // sector. Reads the whole file, from the disk.
  absl::Status Check() const;

  // DataLoss if the pack at `pack_path`, which is sound, is not what this is the parity of.
  absl::Status CheckFits(const std::string& pack_path) const;

 private:
  ParityFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  static absl::StatusOr<ParityFile> OpenHead(const std::string& path, const PackId& pack);
  absl::StatusOr<ParityHead> ReadHead(std::uint64_t offset, const PackId& pack) const;
  void LoadTable();
  // Calls `page` with each page of the table at `offset` that is as it was written, and its number.
  // False if there are others.
  template <typename Page>
  bool VisitPages(std::uint64_t offset, const Page& page) const;

  std::string path_;
  UniqueFd fd_;
  std::uint64_t file_bytes_ = 0;
  ParityHead head_;
  // Without a value where it is lost.
  std::vector<std::optional<std::uint64_t>> sums_;
};

}  // namespace kerf::agent
