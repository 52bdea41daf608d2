#include "kernels/rapid/testing/memory_hints.h"

#include <algorithm>

namespace kerf {

Hint MemoryHints::Find(const Digest& digest) {
  const auto found = hints_.find(digest);
  return found == hints_.end() ? Hint{} : found->second;
}

void MemoryHints::Record(const std::shared_ptr<const CutRun>& run) {
  const std::span<const RunChunk> chunks = run->chunks();
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    Hint& hint = hints_[chunks[index].digest];
    hint.state = Hint::State::kReady;
    // A place from which something follows is worth more than one at the end.
    if (hint.run == nullptr || index + 1 < chunks.size()) {
      hint.run = run;
      hint.next_index = index + 1;
    }
    if (index + 1 < chunks.size() && !run->EndedByEof(index + 1)) {
      hint.next_sizes.Hit({chunks[index + 1].length_bytes, chunks[index + 1].marker});
    }
  }
}

std::vector<RunChunk> CutPlainly(const Chunker& base, DigestAlgorithm digest_algorithm,
                                 std::span<const std::uint8_t> bytes) {
  std::vector<RunChunk> chunks;
  while (!bytes.empty()) {
    const std::size_t length = base.NextCut(bytes);
    chunks.push_back({Fingerprint(digest_algorithm, bytes.first(length)),
                      static_cast<std::uint32_t>(length), bytes[length - 1]});
    bytes = bytes.subspan(length);
  }
  return chunks;
}

std::vector<std::uint8_t> Edited(Random& random, std::span<const std::uint8_t> bytes,
                                 std::size_t edits, std::size_t max_edit_bytes) {
  std::vector<std::size_t> places(edits);
  for (std::size_t& place : places) place = random.Below(bytes.size() + 1);
  std::ranges::sort(places);
  std::vector<std::uint8_t> edited;
  edited.reserve(bytes.size() + edits * max_edit_bytes);
  std::size_t done = 0;
  const auto copy_up_to = [&](std::size_t end) {
    if (end > done) {
      edited.insert(edited.end(), bytes.begin() + static_cast<std::ptrdiff_t>(done),
                    bytes.begin() + static_cast<std::ptrdiff_t>(end));
      done = end;
    }
  };
  for (const std::size_t place : places) {
    copy_up_to(place);
    std::vector<std::uint8_t> fresh(random.Between(1, max_edit_bytes));
    random.Fill(fresh);
    const std::uint64_t kind = random.Below(3);
    // Inserted, deleted, overwritten.
    if (kind != 1) edited.insert(edited.end(), fresh.begin(), fresh.end());
    if (kind != 0) done = std::min(done + fresh.size(), bytes.size());
  }
  copy_up_to(bytes.size());
  return edited;
}

}  // namespace kerf
