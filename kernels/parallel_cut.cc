#include "kernels/parallel_cut.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <ranges>
#include <thread>

#include "base/check.h"
#include "base/threads.h"
#include "kernels/chunker.h"
#include "kernels/registry.h"
#include "kernels/twostage/select.h"
#include "kernels/vector/vector_backends.h"

namespace kerf {
namespace {

// Segments that a thread may be ahead of the selection, in the mean.
constexpr std::size_t kSegmentsAhead = 3;

std::size_t MaxBytes(const TwoStageRule& rule) {
  return std::visit([](const auto& any) { return any.max_bytes; }, rule);
}

// Threads take segments in order, mark them into a ring of words, and whoever finds the selection
// free takes it as far as segments without a gap have been marked: no thread only waits for
// another, unless the ring is full.
class ParallelCut {
 public:
  ParallelCut(const TwoStageRule& rule, const Marker& marker, std::span<const std::uint8_t> bytes,
              const ParallelCutOptions& options)
      : marker_(marker),
        bytes_(bytes),
        segment_bytes_((options.segment_bytes + kWordPositions - 1) / kWordPositions *
                       kWordPositions),
        segment_count_((bytes.size() + segment_bytes_ - 1) / segment_bytes_),
        // From the segment where a chunk begins to that where its maximum lies, so that selection
        // always comes to an end of it.
        ring_segments_(std::min(segment_count_ + 1, MaxBytes(rule) / segment_bytes_ + 2 +
                                                        kSegmentsAhead * options.thread_count)),
        loose_(ring_segments_ * segment_bytes_ / kWordPositions),
        strict_(loose_.size()),
        marked_(ring_segments_),
        selector_(rule, bytes) {}

  std::size_t segment_count() const { return segment_count_; }

  // What every thread does.
  void Work() {
    while (true) {
      const std::size_t segment = next_segment_++;
      if (segment >= segment_count_) break;
      WaitForRoom(segment);
      const std::size_t from = segment * segment_bytes_;
      marker_.Mark(bytes_, from, std::min(bytes_.size(), from + segment_bytes_), marks());
      marked_[segment % ring_segments_] = segment + 1;
      if (const std::unique_lock lock(selecting_, std::try_to_lock); lock.owns_lock()) Select();
    }
    const std::lock_guard lock(selecting_);
    Select();
  }

  // When all threads are done.
  std::vector<std::uint64_t> TakeEnds() {
    KERF_CHECK(selector_.start() == bytes_.size());
    return std::move(ends_);
  }

 private:
  MarkWords marks() { return {loose_, strict_}; }

  void WaitForRoom(std::size_t segment) {
    std::size_t done = done_segments_;
    if (segment < done + ring_segments_) return;
    {
      // Nobody else may come to it: those that found the selection taken went on.
      const std::lock_guard lock(selecting_);
      Select();
    }
    for (done = done_segments_; segment >= done + ring_segments_; done = done_segments_) {
      done_segments_.wait(done);
    }
  }

  // With selecting_ held.
  void Select() {
    while (selected_segments_ < segment_count_ &&
           marked_[selected_segments_ % ring_segments_] == selected_segments_ + 1) {
      ++selected_segments_;
    }
    selector_.Select(marks(), std::min(bytes_.size(), selected_segments_ * segment_bytes_), ends_);
    done_segments_ = selector_.start() / segment_bytes_;
    done_segments_.notify_all();
  }

  const Marker& marker_;
  const std::span<const std::uint8_t> bytes_;
  const std::size_t segment_bytes_;
  const std::size_t segment_count_;
  const std::size_t ring_segments_;
  std::vector<std::uint64_t> loose_;
  std::vector<std::uint64_t> strict_;
  // By place in the ring: 1 + the number of the segment that was marked there last.
  std::vector<std::atomic<std::size_t>> marked_;
  std::atomic<std::size_t> next_segment_ = 0;
  // Segments in front of the selection's start: their places are free.
  std::atomic<std::size_t> done_segments_ = 0;

  // Guards all below.
  std::mutex selecting_;
  // Segments without a gap from the start.
  std::size_t selected_segments_ = 0;
  Selector selector_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace

std::unique_ptr<Marker> MakeMarker(const Profile& profile, std::string_view backend) {
  if (backend != kAutomaticBackend) {
    if (auto marker = MakeVectorMarker(backend, profile)) return marker;
    return MakeScalarMarker(profile);
  }
  if (auto marker = MakeVectorMarker(ChosenBackend(profile), profile)) return marker;
  // For tiny chunks a plain chunker may be the fastest; marks know no chunks. The widest is last.
  for (const Backend& vectors : std::views::reverse(Backends())) {
    if (!vectors.runs_here()) continue;
    if (auto marker = MakeVectorMarker(vectors.name, profile)) return marker;
  }
  return MakeScalarMarker(profile);
}

std::vector<std::uint64_t> CutInParallel(const TwoStageRule& rule, const Marker& marker,
                                         std::span<const std::uint8_t> bytes,
                                         const ParallelCutOptions& options) {
  KERF_CHECK(options.thread_count > 0 && options.segment_bytes > 0);
  ParallelCut cut(rule, marker, bytes, options);
  {
    const auto work = [&cut] { cut.Work(); };
    const std::vector<std::jthread> helpers =
        StartHelpers(std::min(options.thread_count - 1, cut.segment_count()), work);
    work();
  }
  return cut.TakeEnds();
}

std::vector<std::uint64_t> CutInParallel(const Profile& profile,
                                         std::span<const std::uint8_t> bytes,
                                         const ParallelCutOptions& options) {
  const std::optional<TwoStageRule> rule = TwoStageRuleOf(profile);
  if (rule.has_value()) {
    return CutInParallel(*rule, *MakeMarker(profile, options.backend), bytes, options);
  }
  const absl::StatusOr<std::unique_ptr<Chunker>> made = MakeChunkerOf(options.backend, profile);
  KERF_CHECK(made.ok());
  const std::unique_ptr<Chunker>& chunker = *made;
  const std::unique_ptr<CutAhead> ahead = chunker->MakeAhead();
  std::vector<std::uint64_t> ends;
  for (std::size_t start = 0; start < bytes.size();) {
    const auto rest = bytes.subspan(start);
    const std::size_t length = ahead != nullptr ? ahead->NextCut(rest) : chunker->NextCut(rest);
    if (ahead != nullptr) ahead->Pass(length);
    start += length;
    ends.push_back(start);
  }
  return ends;
}

}  // namespace kerf
