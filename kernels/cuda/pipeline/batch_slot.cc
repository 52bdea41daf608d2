#include "kernels/cuda/pipeline/batch_slot.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/cuda/pipeline/host_selection.h"
#include "kernels/cuda/pipeline/queue_marks.h"
#include "kernels/cuda/pipeline/rule_table.h"
#include "kernels/cuda/pipeline/slot_arrays.h"

namespace kerf::cuda {
namespace {

// Where things lie in what goes in. The bytes begin at a multiple of 256.
constexpr std::size_t kTableOffset = 256;
constexpr std::size_t kPiecesOffset = kTableOffset + kMaxGearTableBytes;
static_assert(sizeof(BatchHeader) <= kTableOffset);

// Plans whose launches a slot keeps recorded: those that it has run last.
constexpr std::size_t kMaxRecorded = 16;

constexpr std::size_t RoundUp(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

std::size_t BytesOffset(const SlotLimits& limits) {
  return RoundUp(kPiecesOffset + limits.piece_count * sizeof(Piece), 256);
}

SelectionLimits SelectionLimitsOf(const SlotLimits& limits) {
  return {limits.batch_bytes, limits.piece_count, kMinDeviceChunkBytes, kMinCandidateBytesLog2};
}

// Where things lie in what comes back. SelectedCuts first, and behind them either the number of
// chunks, the chunks and their digests, or the sums of the pieces' nodes and the candidates.
struct OutOffsets {
  explicit OutOffsets(const SlotLimits& limits) {
    const SelectionLimits selection = SelectionLimitsOf(limits);
    const std::size_t chunk_count = MaxChunkCount(selection);
    count = limits.piece_count * sizeof(SelectedCuts);
    chunks = RoundUp(count + sizeof(std::uint32_t), 256);
    digests = RoundUp(chunks + chunk_count * sizeof(Chunk), 256);
    node_items = count;
    node_totals = node_items + limits.piece_count * sizeof(std::uint32_t);
    candidates =
        RoundUp(node_totals + ScanTotalCount(limits.piece_count) * sizeof(std::uint32_t), 256);
    size_bytes = std::max(digests + chunk_count * sizeof(DigestWords),
                          candidates + MaxNodeCount(selection) * sizeof(std::uint32_t));
  }
  std::size_t count;
  std::size_t chunks;
  std::size_t digests;
  std::size_t node_items;
  std::size_t node_totals;
  std::size_t candidates;
  std::size_t size_bytes;
};

// Copied out as bytes.
template <class T>
const std::uint8_t* BytesOf(const T* array) {
  return reinterpret_cast<const std::uint8_t*>(array);
}

template <class Take>
SlotMemory TakeArrays(const SlotLimits& limits, Take& take) {
  SlotMemory memory;
  memory.in = take.template operator()<std::uint8_t>(BytesOffset(limits) + limits.batch_bytes);
  memory.marks.marks = take.template operator()<std::uint32_t>(MarkWordCount(limits.batch_bytes));
  const std::size_t group_count = limits.batch_bytes / kGroupBytes;
  memory.marks.group_maxima = take.template operator()<std::uint8_t>(group_count);
  memory.marks.coarse_maxima =
      take.template operator()<std::uint8_t>((group_count + kCoarseGroups - 1) / kCoarseGroups);
  const SelectionLimits selection_limits = SelectionLimitsOf(limits);
  memory.selection = TakeSelectionMemory(selection_limits, take);
  const std::size_t chunk_count = MaxChunkCount(selection_limits);
  memory.blake3 = TakeBlake3Workspace(Blake3WorkspaceSize(limits.batch_bytes, chunk_count), take);
  memory.sha256 = TakeSha256Workspace(Sha256WorkspaceSize(chunk_count), take);
  memory.digests = take.template operator()<DigestWords>(chunk_count);
  return memory;
}

}  // namespace

BatchSteps StepsOf(const BatchPlan& plan) {
  const bool is_whole = plan.selection == Selection::kDevice;
  return {.marks = true, .candidates = true, .cuts = is_whole, .digests = is_whole};
}

std::size_t SlotDeviceBytes(const SlotLimits& limits) {
  ArraySizes sizes;
  TakeArrays(limits, sizes);
  return sizes.total_bytes();
}

absl::StatusOr<std::unique_ptr<BatchSlot>> BatchSlot::Make(Device& device,
                                                           const SlotLimits& limits) {
  KERF_CHECK(limits.piece_count > 0 && limits.batch_bytes > 0 &&
             limits.batch_bytes % kBatchAlignmentBytes == 0 &&
             limits.batch_bytes <= kMaxBatchBytes);
  std::unique_ptr<BatchSlot> slot(new BatchSlot(device, limits));
  KERF_RETURN_IF_ERROR(slot->TakeMemory());
  return slot;
}

// All at once on each side: where there is too little nothing is taken in vain, since the device
// gives nothing back.
absl::Status BatchSlot::TakeMemory() {
  ArraySizes sizes;
  TakeArrays(limits_, sizes);
  KERF_ASSIGN_OR_RETURN(const auto arrays, device_.AllocateArrays(sizes.sizes_bytes()));
  ArrayPlaces places(arrays);
  memory_ = TakeArrays(limits_, places);
  const std::size_t in_bytes = BytesOffset(limits_) + limits_.batch_bytes;
  const std::size_t out_offset = RoundUp(in_bytes, 256);
  KERF_ASSIGN_OR_RETURN(const std::span<std::uint8_t> pinned,
                        device_.AllocatePinned(out_offset + OutOffsets(limits_).size_bytes));
  in_ = pinned.first(in_bytes);
  bytes_ = in_.subspan(BytesOffset(limits_));
  out_ = pinned.subspan(out_offset);
  back_ = std::make_unique_for_overwrite<std::uint8_t[]>(out_.size());
  KERF_ASSIGN_OR_RETURN(queue_, device_.MakeQueue());
  for (MomentId& moment : moments_) {
    KERF_ASSIGN_OR_RETURN(moment, device_.MakeMoment());
  }
  return ClearCandidates();
}

// The first node of each piece is no candidate: no kernel writes it, and it is copied back between
// those that are.
absl::Status BatchSlot::ClearCandidates() {
  const std::size_t size_bytes =
      MaxNodeCount(SelectionLimitsOf(limits_)) * sizeof(*memory_.selection.candidates);
  const auto zeros = out_.subspan(OutOffsets(limits_).candidates, size_bytes);
  std::fill(zeros.begin(), zeros.end(), std::uint8_t{0});
  return device_.CopyIn(queue_, reinterpret_cast<std::uint8_t*>(memory_.selection.candidates),
                        zeros);
}

absl::Status BatchSlot::Launch(const BatchPlan& plan, const BatchSteps& steps,
                               std::uint32_t strip_bytes) {
  QueueLauncher launcher(device_, queue_);
  auto* const header = reinterpret_cast<BatchHeader*>(memory_.in);
  const std::uint8_t* const bytes = memory_.in + BytesOffset(limits_);
  SelectionArgs selection = memory_.selection;
  selection.header = header;
  selection.blocks_done = header->blocks_done;
  selection.bytes = bytes;
  selection.pieces = reinterpret_cast<const Piece*>(memory_.in + kPiecesOffset);
  selection.marks = memory_.marks.marks;
  selection.candidate_bytes_log2 = plan.candidate_bytes_log2;
  std::visit(
      [&]<class Rule>(Rule rule) {
        if (!plan.gear_table.empty()) SetTable(memory_.in + kTableOffset, rule);
        SetCountedPositions(rule, selection);
        const RuleArgs<Rule> args{selection, rule};
        QueueMarks<Rule> queue_marks(launcher, args, memory_.marks, strip_bytes);
        if (steps.marks) std::visit(queue_marks, plan.marks);
        if (steps.are_noted) launcher.Note(moments_[kMarked]);
        if (steps.candidates) LaunchCandidates(args, launcher);
        if (steps.cuts) LaunchCuts(args, launcher);
        if (steps.are_noted) launcher.Note(moments_[kSelected]);
      },
      plan.cut_rule);

  if (!steps.digests) return launcher.status();
  if (plan.digest_algorithm == DigestAlgorithm::kBlake3) {
    LaunchBlake3({bytes, memory_.selection.chunks, memory_.selection.chunk_count,
                  plan.profile.max_bytes, memory_.blake3, memory_.digests},
                 launcher);
  } else {
    LaunchSha256({bytes, memory_.selection.chunks, memory_.selection.chunk_count, memory_.sha256,
                  memory_.digests},
                 launcher);
  }
  if (steps.are_noted) launcher.Note(moments_[kDigested]);
  return launcher.status();
}

absl::StatusOr<GraphId> BatchSlot::Record(const BatchPlan& plan, const BatchSteps& steps,
                                          std::uint32_t strip_bytes) {
  KERF_RETURN_IF_ERROR(device_.BeginGraph(queue_));
  const absl::Status launched = Launch(plan, steps, strip_bytes);
  if (launched.ok()) return device_.EndGraph(queue_);
  if (absl::IsFailedPrecondition(launched)) KERF_RETURN_IF_ERROR(device_.CancelGraph(queue_));
  return launched;
}

absl::Status BatchSlot::RunPlan(const std::shared_ptr<const BatchPlan>& plan) {
  auto found = std::find_if(recorded_.begin(), recorded_.end(),
                            [&](const Recorded& recorded) { return recorded.plan == plan; });
  if (found == recorded_.end()) {
    if (recorded_.size() == kMaxRecorded) {
      KERF_RETURN_IF_ERROR(device_.DropGraph(recorded_.back().graph));
      recorded_.pop_back();
    }
    BatchSteps steps = StepsOf(*plan);
    steps.are_noted = true;
    KERF_ASSIGN_OR_RETURN(const GraphId graph, Record(*plan, steps, kDefaultStripBytes));
    recorded_.push_back({plan, graph});
    found = recorded_.end() - 1;
  }
  std::rotate(recorded_.begin(), found, found + 1);
  return device_.RunGraph(queue_, recorded_.front().graph);
}

absl::Status BatchSlot::ForgetPlans() {
  KERF_CHECK(stage_ == Stage::kIdle || stage_ == Stage::kDone);
  while (!recorded_.empty()) {
    KERF_RETURN_IF_ERROR(device_.DropGraph(recorded_.back().graph));
    recorded_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status BatchSlot::Start(const std::shared_ptr<const BatchPlan>& plan,
                              std::span<const SlotPiece> pieces) {
  KERF_CHECK(stage_ == Stage::kIdle || stage_ == Stage::kDone);
  KERF_CHECK(!pieces.empty() && pieces.size() <= limits_.piece_count);
  stage_ = Stage::kIdle;
  plan_ = plan;
  pieces_.assign(pieces.begin(), pieces.end());
  auto* const on_device = reinterpret_cast<Piece*>(in_.data() + kPiecesOffset);
  std::size_t end = 0;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    const SlotPiece& piece = pieces[index];
    KERF_CHECK(piece.offset % kPieceAlignmentBytes == 0 && piece.offset >= end);
    end = std::size_t{piece.offset} + piece.size_bytes;
    on_device[index] = {piece.offset, piece.size_bytes, piece.is_end ? 1u : 0u};
  }
  KERF_CHECK(end <= limits_.batch_bytes);
  const std::size_t size_bytes = RoundUp(end, kBatchAlignmentBytes);
  const BatchHeader header{static_cast<std::uint32_t>(size_bytes),
                           static_cast<std::uint32_t>(pieces.size())};
  std::memcpy(in_.data(), &header, sizeof header);
  std::copy(plan->gear_table.begin(), plan->gear_table.end(), in_.begin() + kTableOffset);
  is_noted_ = true;
  KERF_RETURN_IF_ERROR(Note(kBegun));
  KERF_RETURN_IF_ERROR(
      device_.CopyIn(queue_, memory_.in, in_.first(BytesOffset(limits_) + size_bytes)));
  KERF_RETURN_IF_ERROR(Note(kCopiedIn));
  KERF_RETURN_IF_ERROR(RunPlan(plan));
  return Fetch();
}

absl::Status BatchSlot::Repeat(const BatchSteps& steps, std::uint32_t strip_bytes,
                               std::size_t count) {
  KERF_CHECK(stage_ == Stage::kDone);
  const bool is_recorded = repeated_.has_value() && repeated_->plan == plan_ &&
                           repeated_->steps == steps && repeated_->strip_bytes == strip_bytes;
  if (!is_recorded) {
    if (repeated_.has_value()) KERF_RETURN_IF_ERROR(device_.DropGraph(repeated_->graph));
    repeated_.reset();
    KERF_ASSIGN_OR_RETURN(const GraphId graph, Record(*plan_, steps, strip_bytes));
    repeated_ = Repeated{plan_, steps, strip_bytes, graph};
  }
  is_noted_ = false;
  for (; count > 0; --count) KERF_RETURN_IF_ERROR(device_.RunGraph(queue_, repeated_->graph));
  return absl::OkStatus();
}

absl::Status BatchSlot::CopyBack(std::size_t offset, std::size_t size_bytes,
                                 const std::uint8_t* from) {
  const std::span<std::uint8_t> to = out_.subspan(offset, size_bytes);
  coming_back_.push_back(to);
  return device_.CopyOut(queue_, to, from);
}

void BatchSlot::TakeBack() {
  for (const std::span<std::uint8_t> part : coming_back_) {
    std::copy(part.begin(), part.end(), back_.get() + (part.data() - out_.data()));
  }
  coming_back_.clear();
}

absl::Status BatchSlot::Fetch() {
  const OutOffsets offsets(limits_);
  coming_back_.clear();
  KERF_RETURN_IF_ERROR(
      CopyBack(0, pieces_.size() * sizeof(SelectedCuts), BytesOf(memory_.selection.cuts)));
  stage_ = Stage::kSelecting;
  if (plan_->selection == Selection::kDevice) {
    return CopyBack(offsets.count, sizeof(std::uint32_t), BytesOf(memory_.selection.chunk_count));
  }
  const PrefixSums& nodes = memory_.selection.piece_nodes;
  KERF_RETURN_IF_ERROR(
      CopyBack(offsets.node_items, pieces_.size() * sizeof(std::uint32_t), BytesOf(nodes.items)));
  return CopyBack(offsets.node_totals, ScanTotalCount(pieces_.size()) * sizeof(std::uint32_t),
                  BytesOf(nodes.totals));
}

// The host knows only now how much there is to fetch.
absl::Status BatchSlot::FetchRest() {
  const OutOffsets offsets(limits_);
  const SelectionLimits selection = SelectionLimitsOf(limits_);
  if (plan_->selection == Selection::kHost) {
    const std::uint32_t node_count = FirstNodeOf(pieces_.size());
    if (node_count > MaxNodeCount(selection)) {
      return absl::InternalError(
          ToAbsl(Cat("the device has found ", node_count, " nodes, more than fit the batch")));
    }
    return CopyBack(offsets.candidates, node_count * sizeof(std::uint32_t),
                    BytesOf(memory_.selection.candidates));
  }
  std::uint32_t chunk_count = 0;
  std::memcpy(&chunk_count, back_.get() + offsets.count, sizeof chunk_count);
  if (chunk_count > MaxChunkCount(selection)) {
    return absl::InternalError(
        ToAbsl(Cat("the device has found ", chunk_count, " chunks, more than fit the batch")));
  }
  KERF_RETURN_IF_ERROR(
      CopyBack(offsets.chunks, chunk_count * sizeof(Chunk), BytesOf(memory_.selection.chunks)));
  return CopyBack(offsets.digests, chunk_count * sizeof(DigestWords), BytesOf(memory_.digests));
}

absl::StatusOr<bool> BatchSlot::IsDone() {
  KERF_ASSIGN_OR_RETURN(const bool is_done, device_.IsDone(queue_));
  if (!is_done) return false;
  TakeBack();
  if (stage_ == Stage::kSelecting) {
    KERF_RETURN_IF_ERROR(FetchRest());
    KERF_RETURN_IF_ERROR(Note(kCopiedOut));
    stage_ = Stage::kFetching;
    return false;
  }
  if (stage_ == Stage::kFetching) {
    KERF_RETURN_IF_ERROR(plan_->selection == Selection::kHost ? CheckCandidates() : CheckCuts());
    KERF_RETURN_IF_ERROR(TakeTimes());
    stage_ = Stage::kDone;
  }
  return true;
}

absl::Status BatchSlot::TakeTimes() {
  times_.reset();
  if (!is_noted_) return absl::OkStatus();
  const absl::StatusOr<BatchTimes> times = TimesOfBatch();
  if (absl::IsUnavailable(times.status())) return absl::OkStatus();
  if (times.ok()) times_ = *times;
  return times.status();
}

absl::StatusOr<BatchTimes> BatchSlot::TimesOfBatch() {
  const auto between = [this](Moment from, Moment to) {
    return device_.Between(moments_[from], moments_[to]);
  };
  BatchTimes times;
  Moment last = kSelected;
  KERF_ASSIGN_OR_RETURN(times.copy_in, between(kBegun, kCopiedIn));
  KERF_ASSIGN_OR_RETURN(times.mark, between(kCopiedIn, kMarked));
  KERF_ASSIGN_OR_RETURN(times.select, between(kMarked, kSelected));
  if (plan_->selection == Selection::kDevice) {
    last = kDigested;
    KERF_ASSIGN_OR_RETURN(times.digest, between(kSelected, kDigested));
  }
  KERF_ASSIGN_OR_RETURN(times.copy_out, between(last, kCopiedOut));
  return times;
}

std::uint32_t BatchSlot::FirstNodeOf(std::size_t piece) const {
  const OutOffsets offsets(limits_);
  const PrefixSums sums{reinterpret_cast<std::uint32_t*>(back_.get() + offsets.node_items),
                        reinterpret_cast<std::uint32_t*>(back_.get() + offsets.node_totals)};
  return sums.Before(static_cast<std::uint32_t>(piece), static_cast<std::uint32_t>(pieces_.size()));
}

// Its first node is the piece's beginning.
std::span<const std::uint32_t> BatchSlot::CandidatesOf(std::size_t piece) const {
  const auto* const candidates =
      reinterpret_cast<const std::uint32_t*>(back_.get() + OutOffsets(limits_).candidates);
  return {candidates + FirstNodeOf(piece) + 1, candidates + FirstNodeOf(piece + 1)};
}

// So for candidates: in their piece, one behind the other.
absl::Status BatchSlot::CheckCandidates() const {
  const auto* const cuts = reinterpret_cast<const SelectedCuts*>(back_.get());
  const std::uint32_t node_count = FirstNodeOf(pieces_.size());
  for (std::size_t index = 0; index < pieces_.size(); ++index) {
    const SlotPiece& piece = pieces_[index];
    const std::uint32_t first = FirstNodeOf(index);
    const std::uint32_t end = FirstNodeOf(index + 1);
    bool makes_sense = (index > 0 || first == 0) && first < end && end <= node_count;
    std::uint64_t from = piece.offset;
    const std::uint64_t to = from + piece.size_bytes;
    if (makes_sense && cuts[index].needs_cpu == 0) {
      for (const std::uint32_t candidate : CandidatesOf(index)) {
        makes_sense = makes_sense && PositionOf(candidate) >= from && PositionOf(candidate) < to;
        from = std::uint64_t{PositionOf(candidate)} + 1;
      }
    }
    if (!makes_sense) {
      return absl::InternalError(
          ToAbsl(Cat("the device's candidates of piece ", index, " of a batch make no sense")));
    }
  }
  return absl::OkStatus();
}

// Whatever is wrong with the device, no chunk may lie outside its piece, none be smaller than the
// rule has them, but a stream's last, none be left out in between, and what is left undecided be
// less than one.
absl::Status BatchSlot::CheckCuts() const {
  const OutOffsets offsets(limits_);
  const auto* const cuts = reinterpret_cast<const SelectedCuts*>(back_.get());
  const auto* const chunks = reinterpret_cast<const Chunk*>(back_.get() + offsets.chunks);
  std::uint32_t chunk_count = 0;
  std::memcpy(&chunk_count, back_.get() + offsets.count, sizeof chunk_count);
  const std::uint32_t min_bytes =
      std::visit([](const auto& rule) { return rule.MinChunkBytes(); }, plan_->cut_rule);
  std::uint64_t first_chunk = 0;
  for (std::size_t index = 0; index < pieces_.size(); ++index) {
    const SlotPiece& piece = pieces_[index];
    const std::uint64_t end = std::uint64_t{piece.offset} + piece.size_bytes;
    bool makes_sense = cuts[index].first_chunk == first_chunk &&
                       first_chunk + cuts[index].chunk_count <= chunk_count;
    std::uint64_t at = piece.offset;
    for (std::uint32_t number = 0; makes_sense && number < cuts[index].chunk_count; ++number) {
      const Chunk& chunk = chunks[first_chunk + number];
      makes_sense = chunk.offset == at && chunk.size_bytes > 0 &&
                    chunk.size_bytes <= plan_->profile.max_bytes;
      at += chunk.size_bytes;
      const bool is_last = piece.is_end && at == end;
      makes_sense = makes_sense && (chunk.size_bytes >= min_bytes || is_last);
    }
    makes_sense = makes_sense && at <= end;
    if (makes_sense && cuts[index].needs_cpu == 0) {
      makes_sense = piece.is_end ? at == end : end - at < plan_->profile.max_bytes;
    }
    if (!makes_sense) {
      return absl::InternalError(
          ToAbsl(Cat("the device's cuts of piece ", index, " of a batch make no sense")));
    }
    first_chunk += cuts[index].chunk_count;
  }
  if (first_chunk != chunk_count) {
    return absl::InternalError(
        ToAbsl(Cat("the device's number of chunks, ", chunk_count, ", makes no sense")));
  }
  return absl::OkStatus();
}

bool BatchSlot::TakeCandidates(std::size_t piece, std::vector<std::uint32_t>& candidates) const {
  KERF_CHECK(stage_ == Stage::kDone && piece < pieces_.size());
  KERF_CHECK(plan_->selection == Selection::kHost);
  if (reinterpret_cast<const SelectedCuts*>(back_.get())[piece].needs_cpu != 0) return false;
  candidates.clear();
  const std::uint32_t shift = Candidate(pieces_[piece].offset, 0);
  for (const std::uint32_t candidate : CandidatesOf(piece)) {
    candidates.push_back(candidate - shift);
  }
  return true;
}

bool BatchSlot::TakeCuts(std::size_t piece, PieceCuts& cuts) const {
  KERF_CHECK(stage_ == Stage::kDone && piece < pieces_.size());
  if (plan_->selection == Selection::kHost) {
    std::vector<std::uint32_t> candidates;
    if (!TakeCandidates(piece, candidates)) return false;
    const SlotPiece& it = pieces_[piece];
    cuts = SelectOnHost(*plan_, bytes_.subspan(it.offset, it.size_bytes), it.is_end, candidates);
    return true;
  }
  const OutOffsets offsets(limits_);
  const SelectedCuts& found = reinterpret_cast<const SelectedCuts*>(back_.get())[piece];
  if (found.needs_cpu != 0) return false;
  const auto* const chunks = reinterpret_cast<const Chunk*>(back_.get() + offsets.chunks);
  const std::uint8_t* const digests = back_.get() + offsets.digests;
  cuts.chunks.resize(found.chunk_count);
  for (std::uint32_t number = 0; number < found.chunk_count; ++number) {
    const std::size_t index = std::size_t{found.first_chunk} + number;
    PieceChunk& chunk = cuts.chunks[number];
    chunk.size_bytes = chunks[index].size_bytes;
    std::memcpy(chunk.digest.bytes.data(), digests + index * sizeof(DigestWords),
                sizeof(DigestWords));
  }
  return true;
}

}  // namespace kerf::cuda
