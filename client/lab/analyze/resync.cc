#include "client/lab/analyze/resync.h"

#include <algorithm>
#include <array>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/random.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent::analyze {
namespace {

constexpr std::size_t kKindCount = 3;

// The data around an edit, as it was and as it is then.
struct Edited {
  Bytes before;
  std::vector<std::uint8_t> after;
};

Edited Apply(const Corpus& corpus, const Edit& edit, std::uint64_t wanted_bytes) {
  const auto file = std::prev(std::upper_bound(
      corpus.files.begin(), corpus.files.end(), edit.position,
      [](std::uint64_t position, const CorpusFile& it) { return position < it.offset_bytes; }));
  const Bytes content = corpus.BytesOf(*file);
  const std::uint64_t place = edit.position - file->offset_bytes;
  const std::uint64_t front = std::min(place, kChunksBeforeEdit * wanted_bytes);
  const std::uint64_t behind = std::min(content.size() - place, kChunksBehindEdit * wanted_bytes);
  Edited edited;
  edited.before = content.subspan(place - front, front + behind);
  edited.after.assign(edited.before.begin(), edited.before.end());
  const auto at = edited.after.begin() + static_cast<std::ptrdiff_t>(front);
  switch (edit.kind) {
    case EditKind::kInsert:
      edited.after.insert(at, edit.value);
      break;
    case EditKind::kDelete:
      edited.after.erase(at);
      break;
    case EditKind::kOverwrite:
      *at = edit.value;
      break;
  }
  return edited;
}

double MeanOf(std::uint64_t bytes, std::uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(count);
}

}  // namespace

std::vector<Edit> MakeEdits(const Corpus& corpus, std::uint32_t count_of_each_kind,
                            std::uint64_t seed) {
  KERF_CHECK(corpus.size_bytes > 0);
  Random random(seed);
  std::vector<Edit> edits;
  for (std::uint32_t index = 0; index < count_of_each_kind; ++index) {
    for (const EditKind kind : {EditKind::kInsert, EditKind::kDelete, EditKind::kOverwrite}) {
      Edit edit;
      edit.kind = kind;
      edit.position = random.Below(corpus.size_bytes);
      edit.value = static_cast<std::uint8_t>(corpus.all()[edit.position] + random.Between(1, 255));
      edits.push_back(edit);
    }
  }
  return edits;
}

std::uint64_t ResentBytes(const Chunker& chunker, Bytes before, Bytes after) {
  absl::flat_hash_set<Xxh3Digest> known;
  while (!before.empty()) {
    const std::size_t length = chunker.NextCut(before);
    known.insert(Xxh3Of128(before.first(length)));
    before = before.subspan(length);
  }
  std::uint64_t resent_bytes = 0;
  while (!after.empty()) {
    const std::size_t length = chunker.NextCut(after);
    if (!known.contains(Xxh3Of128(after.first(length)))) resent_bytes += length;
    after = after.subspan(length);
  }
  return resent_bytes;
}

ResyncFigures MeasureResync(const Chunker& chunker, const Corpus& corpus,
                            const std::vector<Edit>& edits, std::uint64_t wanted_bytes,
                            const std::atomic<bool>& cancelled) {
  std::array<std::uint64_t, kKindCount> bytes{};
  std::array<std::uint64_t, kKindCount> counts{};
  for (const Edit& edit : edits) {
    if (cancelled) return {};
    const Edited edited = Apply(corpus, edit, wanted_bytes);
    bytes[static_cast<std::size_t>(edit.kind)] += ResentBytes(chunker, edited.before, edited.after);
    ++counts[static_cast<std::size_t>(edit.kind)];
  }
  ResyncFigures figures;
  figures.edit_count = edits.size();
  figures.insert_bytes = MeanOf(bytes[0], counts[0]);
  figures.delete_bytes = MeanOf(bytes[1], counts[1]);
  figures.overwrite_bytes = MeanOf(bytes[2], counts[2]);
  figures.mean_bytes = MeanOf(bytes[0] + bytes[1] + bytes[2], edits.size());
  return figures;
}

}  // namespace kerf::agent::analyze
