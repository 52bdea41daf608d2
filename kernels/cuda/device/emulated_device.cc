#include "kernels/cuda/device/emulated_device.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::cuda {
namespace {

constexpr std::size_t kAlignmentBytes = 256;
// What a kernel finds where nobody has written.
constexpr std::uint8_t kGarbage = 0xA5;

std::uint64_t GarbageWords(std::span<const std::uint8_t> bytes) {
  std::uint64_t count = 0;
  for (; bytes.size() >= 4; bytes = bytes.subspan(4)) {
    const auto word = bytes.first(4);
    if (std::all_of(word.begin(), word.end(), [](auto byte) { return byte == kGarbage; })) ++count;
  }
  return count;
}

}  // namespace

void EmulatedDevice::FreeBytes::operator()(std::uint8_t* bytes) const { std::free(bytes); }

EmulatedDevice::EmulatedDevice(EmulatedDeviceOptions options)
    : options_(std::move(options)),
      info_{options_.name, options_.memory_bytes},
      device_memory_{options_.memory_bytes, {}, {}},
      pinned_memory_{options_.memory_bytes, {}, {}} {
  if (options_.seed.has_value()) random_.emplace(*options_.seed);
}

absl::Status EmulatedDevice::CheckRoom(const Memory& memory, std::size_t size_bytes) {
  if (size_bytes <= memory.left_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      ToAbsl(Cat("the emulated device has ", memory.left_bytes, " bytes left, not ", size_bytes)));
}

std::span<std::uint8_t> EmulatedDevice::Take(Memory& memory, std::size_t size_bytes,
                                             std::size_t gap_bytes) {
  memory.left_bytes -= size_bytes;
  // aligned_alloc wants whole alignments; the sanitizer does not see what is behind the size then.
  const std::size_t whole =
      (std::max<std::size_t>(size_bytes, 1) + gap_bytes + kAlignmentBytes - 1) / kAlignmentBytes *
      kAlignmentBytes;
  auto* const bytes = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignmentBytes, whole));
  KERF_CHECK(bytes != nullptr);
  memory.blocks.emplace_back(bytes);
  memory.ranges.emplace_back(bytes, size_bytes);
  std::fill_n(bytes, whole, kGarbage);
  return std::span(bytes, size_bytes);
}

bool EmulatedDevice::Holds(const Memory& memory, std::span<const std::uint8_t> bytes) {
  return std::any_of(memory.ranges.begin(), memory.ranges.end(), [&](const auto& range) {
    return range.data() <= bytes.data() &&
           bytes.data() + bytes.size() <= range.data() + range.size();
  });
}

absl::StatusOr<std::vector<std::uint8_t*>> EmulatedDevice::AllocateArrays(
    std::span<const std::size_t> sizes_bytes) {
  KERF_RETURN_IF_ERROR(CheckRoom(
      device_memory_, std::accumulate(sizes_bytes.begin(), sizes_bytes.end(), std::size_t{0})));
  std::vector<std::span<std::uint8_t>> taken;
  std::vector<std::uint8_t*> arrays;
  for (const std::size_t size_bytes : sizes_bytes) {
    taken.push_back(Take(device_memory_, size_bytes, options_.gap_bytes));
    arrays.push_back(taken.back().data());
  }
  if (options_.watcher != nullptr) options_.watcher->Taken(taken);
  return arrays;
}

absl::StatusOr<std::span<std::uint8_t>> EmulatedDevice::AllocatePinned(std::size_t size_bytes) {
  KERF_RETURN_IF_ERROR(CheckRoom(pinned_memory_, size_bytes));
  return Take(pinned_memory_, size_bytes, 0);
}

absl::StatusOr<QueueId> EmulatedDevice::MakeQueue() {
  queues_.emplace_back();
  return QueueId(static_cast<std::uint32_t>(queues_.size() - 1));
}

EmulatedDevice::Commands& EmulatedDevice::At(QueueId queue) {
  const auto number = static_cast<std::size_t>(queue);
  KERF_CHECK(number < queues_.size());
  return queues_[number];
}

void EmulatedDevice::Put(QueueId queue, Command command) {
  (recording_ == queue ? recorded_ : At(queue)).push_back(std::move(command));
}

absl::Status EmulatedDevice::CopyIn(QueueId queue, std::uint8_t* to,
                                    std::span<const std::uint8_t> pinned) {
  KERF_CHECK(recording_ != queue);
  KERF_CHECK(Holds(pinned_memory_, pinned) && Holds(device_memory_, {to, pinned.size()}));
  Put(queue, [this, to, pinned] {
    std::copy(pinned.begin(), pinned.end(), to);
    if (options_.watcher != nullptr) options_.watcher->CopiedIn({to, pinned.size()});
    clock_ += std::chrono::nanoseconds(pinned.size());
  });
  return absl::OkStatus();
}

absl::Status EmulatedDevice::CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                                     const std::uint8_t* from) {
  KERF_CHECK(recording_ != queue);
  KERF_CHECK(Holds(pinned_memory_, pinned) && Holds(device_memory_, {from, pinned.size()}));
  Put(queue, [this, pinned, from] {
    if (options_.watcher != nullptr) options_.watcher->CopiedOut({from, pinned.size()});
    unwritten_word_count_ += GarbageWords({from, pinned.size()});
    std::copy_n(from, pinned.size(), pinned.begin());
    clock_ += std::chrono::nanoseconds(pinned.size());
  });
  return absl::OkStatus();
}

absl::Status EmulatedDevice::LoadKernels() {
  if (!std::exchange(are_kernels_loaded_, true)) std::this_thread::sleep_for(options_.load_time);
  return absl::OkStatus();
}

absl::Status EmulatedDevice::Launch(QueueId queue, std::size_t kernel,
                                    std::span<const std::uint8_t> args) {
  KERF_CHECK(kernel < options_.kernels.size());
  KERF_RETURN_IF_ERROR(LoadKernels());
  const std::size_t needed_bytes = options_.kernels[kernel].shared_bytes;
  if (needed_bytes > options_.shared_bytes) {
    if (recording_ == queue) is_recording_void_ = true;
    return absl::FailedPreconditionError(
        ToAbsl(Cat("a block needs ", needed_bytes, " bytes of shared memory, and this GPU has ",
                   options_.shared_bytes)));
  }
  Command command = [this, kernel, copy = std::vector(args.begin(), args.end())] {
    EmulatorOptions options;
    if (random_.has_value()) options.order_seed = random_->Next();
    options_.kernels[kernel].run(copy, options);
    clock_ += kLaunchTime;
  };
  Put(queue, std::move(command));
  return absl::OkStatus();
}

absl::StatusOr<MomentId> EmulatedDevice::MakeMoment() {
  moments_.emplace_back();
  return MomentId(static_cast<std::uint32_t>(moments_.size() - 1));
}

absl::Status EmulatedDevice::Note(QueueId queue, MomentId moment) {
  const auto number = static_cast<std::size_t>(moment);
  KERF_CHECK(number < moments_.size());
  Put(queue, [this, number] { moments_[number] = clock_; });
  return absl::OkStatus();
}

absl::StatusOr<std::chrono::nanoseconds> EmulatedDevice::Between(MomentId from, MomentId to) {
  const auto noted_at = [this](MomentId moment) {
    const auto number = static_cast<std::size_t>(moment);
    KERF_CHECK(number < moments_.size());
    return moments_[number];
  };
  const auto begin = noted_at(from);
  const auto end = noted_at(to);
  KERF_CHECK(begin.has_value() && end.has_value() && *begin <= *end);
  return *end - *begin;
}

absl::Status EmulatedDevice::BeginGraph(QueueId queue) {
  KERF_CHECK(!recording_.has_value() && static_cast<std::size_t>(queue) < queues_.size());
  recording_ = queue;
  return absl::OkStatus();
}

absl::StatusOr<GraphId> EmulatedDevice::EndGraph(QueueId queue) {
  KERF_CHECK(recording_ == queue && !is_recording_void_);
  recording_.reset();
  auto place = std::find_if(graphs_.begin(), graphs_.end(),
                            [](const std::optional<Commands>& graph) { return !graph; });
  if (place == graphs_.end()) place = graphs_.emplace(graphs_.end());
  place->emplace(std::exchange(recorded_, {}));
  ++made_graph_count_;
  return GraphId(static_cast<std::uint32_t>(place - graphs_.begin()));
}

absl::Status EmulatedDevice::CancelGraph(QueueId queue) {
  KERF_CHECK(recording_ == queue);
  recording_.reset();
  recorded_.clear();
  is_recording_void_ = false;
  return absl::OkStatus();
}

EmulatedDevice::Commands& EmulatedDevice::At(GraphId graph) {
  const auto number = static_cast<std::size_t>(graph);
  KERF_CHECK(number < graphs_.size() && graphs_[number].has_value());
  return *graphs_[number];
}

absl::Status EmulatedDevice::DropGraph(GraphId graph) {
  At(graph);
  graphs_[static_cast<std::size_t>(graph)].reset();
  return absl::OkStatus();
}

std::size_t EmulatedDevice::graph_count() const {
  return static_cast<std::size_t>(
      std::count_if(graphs_.begin(), graphs_.end(),
                    [](const std::optional<Commands>& graph) { return graph.has_value(); }));
}

absl::Status EmulatedDevice::RunGraph(QueueId queue, GraphId graph) {
  KERF_CHECK(recording_ != queue);
  for (const Command& command : At(graph)) Put(queue, command);
  return absl::OkStatus();
}

void EmulatedDevice::RunFirst(Commands& commands) {
  const Command command = std::move(commands.front());
  commands.pop_front();
  command();
}

absl::StatusOr<bool> EmulatedDevice::IsDone(QueueId queue) {
  Commands& commands = At(queue);
  if (!random_.has_value()) {
    for (Commands& each : queues_) {
      while (!each.empty()) RunFirst(each);
    }
    KERF_RETURN_IF_ERROR(options_.health());
    return true;
  }
  // As many as make nobody wait long, seldom in the order in which they came.
  for (std::uint64_t left = random_->Below(4 * queues_.size()); left > 0; --left) {
    Commands& any = queues_[random_->Below(queues_.size())];
    if (!any.empty()) RunFirst(any);
  }
  KERF_RETURN_IF_ERROR(options_.health());
  return commands.empty();
}

}  // namespace kerf::cuda
