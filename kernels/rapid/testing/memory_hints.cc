#include "kernels/rapid/testing/memory_hints.h"

#include "kernels/testing/edits.h"

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
  return MakeEdited(random, bytes, {.edit_count = edits, .max_edit_bytes = max_edit_bytes});
}

}  // namespace kerf
