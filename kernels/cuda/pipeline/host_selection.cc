#include "kernels/cuda/pipeline/host_selection.h"

#include <cstddef>
#include <variant>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/kernel/cut.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/pipeline/rule_table.h"

namespace kerf::cuda {
namespace {

// Rules read their bytes in sixteens. A chunk that may end nearer to the piece's end is cut by the
// Chunker, which reads nothing behind it.
constexpr std::size_t kReadAheadBytes = 16;

// Appends the chunks that are surely decided; returns how many bytes they have.
template <class Rule>
std::size_t SelectSure(const Rule& rule, std::span<const std::uint8_t> bytes,
                       std::span<const std::uint32_t> candidates,
                       std::vector<std::span<const std::uint8_t>>& chunks) {
  typename Rule::Tables tables;
  rule.Load(tables, 0, 1);
  SelectionArgs args{};
  args.bytes = bytes.data();
  // Nobody writes to them.
  args.candidates = const_cast<std::uint32_t*>(candidates.data());
  const PieceBounds bounds{static_cast<std::uint32_t>(bytes.size()), false,
                           static_cast<std::uint32_t>(candidates.size())};
  std::uint32_t start = 0;
  std::uint32_t node = 0;
  while (bytes.size() - start >= rule.max_bytes + kReadAheadBytes) {
    const Cut cut = rule.Next(args, tables, bounds, start, node);
    KERF_CHECK(cut.size_bytes > 0 && cut.size_bytes <= rule.max_bytes);
    chunks.push_back(bytes.subspan(start, cut.size_bytes));
    start += cut.size_bytes;
    node = cut.first_node;
  }
  return start;
}

}  // namespace

PieceCuts SelectOnHost(const BatchPlan& plan, std::span<const std::uint8_t> piece, bool is_end,
                       std::span<const std::uint32_t> candidates) {
  std::vector<std::span<const std::uint8_t>> chunks;
  const std::size_t sure_bytes = std::visit(
      [&](auto rule) {
        if (!plan.gear_table.empty()) SetTable(plan.gear_table.data(), rule);
        return SelectSure(rule, piece, candidates, chunks);
      },
      plan.cut_rule);
  AppendChunks(*plan.chunker, piece.subspan(sure_bytes), is_end, chunks);
  return Fingerprinted(plan.digest_algorithm, chunks);
}

}  // namespace kerf::cuda
