// How the kernels of a batch are queued, and which ones mark it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/kernel/linear_marks.h"
#include "kernels/cuda/kernel/peak_marks.h"
#include "kernels/cuda/kernel/walks.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {

// Queues kernels, and moments between them, until one cannot be queued; status() says why.
class QueueLauncher {
 public:
  QueueLauncher(Device& device, QueueId queue) : device_(device), queue_(queue) {}

  template <class Kernel>
  void Launch(const typename Kernel::Args& args) {
    if (status_.ok()) status_ = LaunchOf<KernelList, Kernel>(device_, queue_, args);
  }

  void Note(MomentId moment) {
    if (status_.ok()) status_ = device_.Note(queue_, moment);
  }

  const absl::Status& status() const { return status_; }

 private:
  Device& device_;
  const QueueId queue_;
  absl::Status status_;
};

// Device memory of the kernels that mark.
struct MarkMemory {
  std::uint32_t* marks = nullptr;
  std::uint8_t* group_maxima = nullptr;
  std::uint8_t* coarse_maxima = nullptr;
};

// Queues the kernels that mark a batch by the plan's rule, for cuts by `Rule`.
template <class Rule>
class QueueMarks {
 public:
  QueueMarks(QueueLauncher& launcher, const RuleArgs<Rule>& args, const MarkMemory& memory,
             std::uint32_t strip_bytes)
      : launcher_(launcher), args_(args), memory_(memory), strip_bytes_(strip_bytes) {}

  void operator()(const GearHash<std::uint32_t>::Args& rule) { Strips<GearMarks>(rule); }
  void operator()(const GearHash<std::uint64_t>::Args& rule) { Strips<WideGearMarks>(rule); }
  void operator()(const CrcHash::Args& rule) { Strips<CrcMarks>(rule); }
  void operator()(const RabinHash::Args& rule) { Strips<RabinMarks>(rule); }
  void operator()(const PeakRule& rule) {
    const ByteMaxima::Args maxima{args_.selection.bytes, size_bytes(), memory_.group_maxima,
                                  memory_.coarse_maxima};
    launcher_.Launch<ByteMaxima>(maxima);
    launcher_.Launch<PeakMarks>({maxima, memory_.marks, rule.window_bytes});
  }
  void operator()(const ExtremeMarkRule& rule) {
    // Which other cuts do not go with.
    if constexpr (requires { args_.rule.hash; }) {
      const SelectionArgs& selection = args_.selection;
      launcher_.Launch<ExtremeMarks<decltype(Rule::hash)>>(
          {selection.header, selection.bytes, selection.pieces, args_.rule.min_bytes, rule.reach,
           args_.rule.hash, memory_.marks});
    }
  }

 private:
  const std::uint32_t* size_bytes() const { return &args_.selection.header->size_bytes; }

  template <class Kernel, class MarkRule>
  void Strips(const MarkRule& rule) {
    launcher_.Launch<Kernel>(
        {args_.selection.bytes, size_bytes(), memory_.marks, strip_bytes_, rule});
  }

  QueueLauncher& launcher_;
  const RuleArgs<Rule>& args_;
  const MarkMemory& memory_;
  const std::uint32_t strip_bytes_;
};

}  // namespace kerf::cuda
