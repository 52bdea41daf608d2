#include "kernels/cuda/kernel/emulated_selection.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/extreme_rule.h"
#include "kernels/testing/guarded_bytes.h"

namespace kerf::cuda {
namespace {

// Memory for one run.
class GarbageTaker {
 public:
  template <class T>
  T* operator()(std::size_t count) {
    // Not what an empty vector has: an array of no items may not be touched.
    arrays_.push_back(std::make_unique<std::byte[]>(count * sizeof(T)));
    std::memset(arrays_.back().get(), 0xA5, count * sizeof(T));
    return reinterpret_cast<T*>(arrays_.back().get());
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> arrays_;
};

std::vector<std::uint32_t> Halves(std::span<const std::uint64_t> words, std::size_t count) {
  std::vector<std::uint32_t> halves(count, 0xA5A5A5A5);
  for (std::size_t index = 0; index < 2 * words.size(); ++index) {
    halves[index] = static_cast<std::uint32_t>(words[index / 2] >> (32 * (index % 2)));
  }
  return halves;
}

}  // namespace

bool operator==(const Selected& a, const Selected& b) {
  const auto same = [](const auto& left, const auto& right) {
    return left.size() == right.size() &&
           (left.empty() ||
            std::memcmp(left.data(), right.data(), left.size() * sizeof left[0]) == 0);
  };
  return same(a.chunks, b.chunks) && same(a.cuts, b.cuts);
}

BatchMarks MarkBatch(const Marker& marker, std::span<const std::uint8_t> bytes) {
  std::vector<std::uint64_t> loose(bytes.size() / kWordPositions);
  std::vector<std::uint64_t> strict(loose.size());
  if (!bytes.empty()) marker.Mark(bytes, 0, bytes.size(), {loose, strict});
  const std::size_t word_count = MarkWordCount(bytes.size());
  return Halves(loose, word_count);
}

template <class Rule>
Selected EmulateSelection(const Rule& rule, std::uint32_t candidate_bytes_log2, const Batch& batch,
                          const BatchMarks& marks, const EmulatorOptions& options) {
  KERF_CHECK(batch.bytes.size() % kBatchAlignmentBytes == 0);
  const SelectionLimits limits{.batch_bytes = batch.bytes.size(),
                               .piece_count = batch.pieces.size(),
                               .min_chunk_bytes = rule.MinChunkBytes(),
                               .candidate_bytes_log2 = candidate_bytes_log2};
  const std::size_t word_count = batch.bytes.size() / 32;
  KERF_CHECK(marks.size() >= word_count);
  GarbageTaker take;
  auto* const batch_marks = take.operator()<std::uint32_t>(word_count);
  std::copy_n(marks.begin(), word_count, batch_marks);
  SelectionArgs args = TakeSelectionMemory(limits, take);
  BatchHeader header{static_cast<std::uint32_t>(batch.bytes.size()),
                     static_cast<std::uint32_t>(batch.pieces.size())};
  GuardedBytes bytes(std::max(batch.bytes.size(), kBatchAlignmentBytes));
  args.header = &header;
  args.blocks_done = header.blocks_done;
  args.bytes = bytes.CopyToEnd(batch.bytes).data();
  args.pieces = batch.pieces.data();
  args.marks = batch_marks;
  SetCountedPositions(rule, args);
  const RuleArgs<Rule> rule_args{args, rule};
  EmulatorLauncher launcher{options};
  LaunchCandidates(rule_args, launcher);
  LaunchCuts(rule_args, launcher);
  Selected selected;
  selected.cuts.assign(args.cuts, args.cuts + header.piece_count);
  std::size_t chunk_count = 0;
  for (const SelectedCuts& cuts : selected.cuts) chunk_count += cuts.chunk_count;
  KERF_CHECK(chunk_count <= MaxChunkCount(limits));
  KERF_CHECK(chunk_count == *args.chunk_count);
  selected.chunks.assign(args.chunks, args.chunks + chunk_count);
  return selected;
}

template Selected EmulateSelection(const CutRule&, std::uint32_t, const Batch&, const BatchMarks&,
                                   const EmulatorOptions&);
template Selected EmulateSelection(const WideCutRule&, std::uint32_t, const Batch&,
                                   const BatchMarks&, const EmulatorOptions&);
template Selected EmulateSelection(const ExtremeRule<MinCdcHashes>&, std::uint32_t, const Batch&,
                                   const BatchMarks&, const EmulatorOptions&);
template Selected EmulateSelection(const ExtremeRule<MaxCdcHashes>&, std::uint32_t, const Batch&,
                                   const BatchMarks&, const EmulatorOptions&);

template <class Hash>
BatchMarks EmulateExtremeMarks(const Hash& hash, const ExtremeSetting& setting, const Batch& batch,
                               const EmulatorOptions& options) {
  const BatchHeader header{static_cast<std::uint32_t>(batch.bytes.size()),
                           static_cast<std::uint32_t>(batch.pieces.size())};
  GuardedBytes bytes(std::max(batch.bytes.size(), kBatchAlignmentBytes));
  std::vector<std::uint32_t> marks(batch.bytes.size() / 32, 0xA5A5A5A5);
  Emulate<ExtremeMarks<Hash>>({.header = &header,
                               .bytes = bytes.CopyToEnd(batch.bytes).data(),
                               .pieces = batch.pieces.data(),
                               .min_bytes = setting.min_bytes,
                               .reach = setting.reach,
                               .hash = hash,
                               .marks = marks.data()},
                              options);
  marks.resize(MarkWordCount(batch.bytes.size()), 0xA5A5A5A5);
  return marks;
}

template BatchMarks EmulateExtremeMarks(const MinCdcHashes&, const ExtremeSetting&, const Batch&,
                                        const EmulatorOptions&);
template BatchMarks EmulateExtremeMarks(const MaxCdcHashes&, const ExtremeSetting&, const Batch&,
                                        const EmulatorOptions&);

}  // namespace kerf::cuda
