// The data that is analyzed: files in memory, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kerf::agent::analyze {

using Bytes = std::span<const std::uint8_t>;

// One file with content.
struct CorpusFile {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  // Which part it belongs to.
  std::uint32_t part = 0;
};

// Filled once, then read by any number of threads. Movable.
struct Corpus {
  std::unique_ptr<std::uint8_t[]> content;
  std::uint64_t size_bytes = 0;
  // By part, and within one in the order in which a backup would read them; without gaps.
  std::vector<CorpusFile> files;
  // What may be versions of the same thing, in order: the given paths or, where there is one, the
  // folders in it, or the files where there are only files.
  std::vector<std::string> parts;

  // What was there before a sample was taken.
  std::uint64_t found_bytes = 0;
  std::uint64_t found_file_count = 0;
  // Files of which only the front is here.
  std::uint64_t shortened_file_count = 0;

  bool is_sample() const { return size_bytes < found_bytes; }
  Bytes all() const { return {content.get(), size_bytes}; }
  Bytes BytesOf(const CorpusFile& file) const {
    return all().subspan(file.offset_bytes, file.length_bytes);
  }
};

// Pieces of `all` that lie evenly apart and have `piece_bytes` each, together about `budget_bytes`;
// all of it in one piece if it is not larger than that.
std::vector<Bytes> EvenPieces(Bytes all, std::uint64_t budget_bytes, std::uint64_t piece_bytes);

}  // namespace kerf::agent::analyze
