// ptx_mutants [SHARD/COUNT [SEED [ONE_IN]]]: changes the PTX of the plug-in's kernels in one place
// after another (a barrier is left out, a mask is another one), and says of which changes nobody
// takes notice: neither the machine, which finds what a GPU would not forgive, nor who compares
// cuts and digests with the CPU's, nor who sees which pieces are given to the CPU, nor who compares
// what kernels leave in the device's memory (ptx_memory_test holds that of the unchanged ones to
// the emulator's). Of changes that change nothing (equivalent_mutants.h) nobody may. With ONE_IN
// only one in so many is tried.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/ptx/equivalent_mutants.h"
#include "kernels/cuda/ptx/modules.h"
#include "kernels/cuda/ptx/mutant_workloads.h"
#include "kernels/cuda/ptx/ptx_machine.h"
#include "kernels/profile.h"

namespace kerf::cuda::ptx {
namespace {

struct ChosenMutant {
  const ModuleKernels* module = nullptr;
  std::uint32_t number = 0;
};

// What has become of a batch.
struct Outcome {
  // A finding of the machine, or what differs from the CPU; empty: all is well.
  std::string fault;
  // By piece: not given to the CPU.
  std::vector<bool> is_cut;
  // What kernels have left, and how often their blocks have waited.
  std::uint64_t hash = 0;
  std::uint64_t interval_count = 0;
  std::set<const Kernel*> kernels;
};

Outcome RunBatch(const Workload& workload, std::uint64_t seed, const ChosenMutant& mutant) {
  const auto machine = std::make_shared<PtxMachine>(seed);
  machine->machine.set_mutant(mutant.module, mutant.number);
  EmulatedDevice device(PtxDeviceOptions(machine));
  const auto slot = BatchSlot::Make(device, workload.limits);
  KERF_CHECK(slot.ok());
  std::copy(workload.bytes.begin(), workload.bytes.end(), (*slot)->bytes().begin());
  absl::Status status = (*slot)->Start(workload.plan, workload.pieces);
  bool is_done = false;
  while (status.ok() && !is_done) {
    const auto answer = (*slot)->IsDone();
    status = answer.status();
    is_done = answer.ok() && *answer;
  }
  Outcome outcome;
  outcome.kernels = machine->launched;
  if (!status.ok()) {
    outcome.fault = status.ToString();
    return outcome;
  }
  std::vector<ComparedPiece> compared;
  for (std::size_t number = 0; number < workload.pieces.size(); ++number) {
    const SlotPiece& piece = workload.pieces[number];
    ComparedPiece each{
        workload.plan, (*slot)->bytes().subspan(piece.offset, piece.size_bytes), piece.is_end, {}};
    outcome.is_cut.push_back((*slot)->TakeCuts(number, each.cuts));
    if (outcome.is_cut.back()) compared.push_back(std::move(each));
  }
  outcome.fault = DifferenceOfAny(compared);
  outcome.hash = machine->memory.HashOfWritten();
  outcome.interval_count = machine->machine.interval_count();
  return outcome;
}

enum class Notice : std::uint8_t {
  kNone,
  // Only by what is left in the device's memory, or by how often blocks wait.
  kByTraces,
  kByAnswers,
};

Notice NoticeOf(const Mutant& mutant, const Outcome& usual, const Outcome& changed) {
  if (!changed.fault.empty() || changed.is_cut != usual.is_cut) return Notice::kByAnswers;
  // Without a barrier threads run in another order, and blocks wait less often in any case.
  if (std::string_view(mutant.kind) == "barrier") return Notice::kNone;
  const bool is_same = changed.hash == usual.hash && changed.interval_count == usual.interval_count;
  return is_same ? Notice::kNone : Notice::kByTraces;
}

const Kernel* KernelOf(const ModuleKernels& module, std::string_view name) {
  const auto found = std::find_if(module.kernels.begin(), module.kernels.end(),
                                  [name](const Kernel& kernel) { return kernel.name == name; });
  KERF_CHECK(found != module.kernels.end());
  return &*found;
}

// Tries mutants on one workload after another.
class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : seed_(seed), workloads_(MakeWorkloads(seed)), usual_(workloads_.size()) {}

  // Nothing: something is wrong without a mutant, and was printed.
  std::optional<Notice> Try(const ChosenMutant& chosen) {
    const Mutant& mutant = chosen.module->mutants[chosen.number - 1];
    const Kernel* const kernel = KernelOf(*chosen.module, mutant.kernel);
    for (const std::size_t index : OrderFor(kernel)) {
      const Outcome* const usual = UsualOf(index);
      if (usual == nullptr) return std::nullopt;
      if (!usual->kernels.contains(kernel)) continue;
      const Notice notice = NoticeOf(mutant, *usual, RunBatch(workloads_[index], seed_, chosen));
      if (notice == Notice::kNone) continue;
      last_shown_[kernel] = index;
      return notice;
    }
    return Notice::kNone;
  }

 private:
  // What has shown the last change of the kernel is likely to show the next.
  std::vector<std::size_t> OrderFor(const Kernel* kernel) const {
    std::vector<std::size_t> order(workloads_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto last = last_shown_.find(kernel);
    if (last != last_shown_.end()) {
      const auto place = order.begin() + static_cast<std::ptrdiff_t>(last->second);
      std::rotate(order.begin(), place, place + 1);
    }
    return order;
  }

  // Null: something is wrong without a mutant.
  const Outcome* UsualOf(std::size_t index) {
    std::optional<Outcome>& usual = usual_[index];
    if (!usual.has_value()) usual = RunBatch(workloads_[index], seed_, {});
    if (usual->fault.empty()) return &*usual;
    std::printf("without a mutant, %s: %s\n",
                FormatProfile(workloads_[index].plan->profile).c_str(), usual->fault.c_str());
    return nullptr;
  }

  const std::uint64_t seed_;
  const std::vector<Workload> workloads_;
  std::vector<std::optional<Outcome>> usual_;
  std::map<const Kernel*, std::size_t> last_shown_;
};

const EquivalentMutants* EquivalentOf(const Mutant& mutant) {
  for (const EquivalentMutants& each : AllEquivalentMutants()) {
    if (IsOneOf(each, mutant)) return &each;
  }
  return nullptr;
}

std::vector<ChosenMutant> AllMutants() {
  std::vector<ChosenMutant> all;
  for (const ModuleKernels* module : AllModules()) {
    for (std::uint32_t number = 1; number <= module->mutants.size(); ++number) {
      all.push_back({module, number});
    }
  }
  return all;
}

// A proof about something that nvcc no longer makes is none: 0, but for each an exit code of 1.
int CheckEquivalents(const std::vector<ChosenMutant>& all) {
  int code = 0;
  for (const EquivalentMutants& each : AllEquivalentMutants()) {
    const auto count = std::count_if(all.begin(), all.end(), [&](const ChosenMutant& chosen) {
      return IsOneOf(each, chosen.module->mutants[chosen.number - 1]);
    });
    if (count == each.last - each.first + 1) continue;
    std::printf("equivalent_mutants.cc: %s has no %s %u to %u of %u\n",
                std::string(each.kernel).c_str(), std::string(each.kind).c_str(), each.first,
                each.last, each.count);
    code = 1;
  }
  return code;
}

void Say(const char* what, const ChosenMutant& chosen) {
  const Mutant& mutant = chosen.module->mutants[chosen.number - 1];
  std::printf("%s: %s:%u, %s, %s %u of %u: %s\n", what, chosen.module->file, mutant.line,
              NameInLimits(mutant.kernel).c_str(), mutant.kind, mutant.place, mutant.count,
              mutant.what);
  std::fflush(stdout);
}

struct Choice {
  std::uint64_t shard;
  std::uint64_t shard_count;
  std::uint64_t seed;
  std::uint64_t one_in;
};

int Run(const Choice& choice) {
  const std::vector<ChosenMutant> all = AllMutants();
  int code = CheckEquivalents(all);
  Trial trial(choice.seed);
  std::uint64_t counts[3] = {};
  std::uint64_t equivalent_count = 0;
  std::uint64_t number = 0;
  for (std::size_t index = choice.seed % choice.one_in; index < all.size();
       index += choice.one_in) {
    if (number++ % choice.shard_count != choice.shard) continue;
    const Mutant& mutant = all[index].module->mutants[all[index].number - 1];
    const EquivalentMutants* const equivalent = EquivalentOf(mutant);
    const std::optional<Notice> notice = trial.Try(all[index]);
    if (!notice.has_value()) return 1;
    if (equivalent == nullptr) {
      ++counts[static_cast<std::size_t>(*notice)];
      if (*notice == Notice::kNone) Say("nobody notices", all[index]);
      continue;
    }
    ++equivalent_count;
    if (*notice == Notice::kNone) continue;
    Say("not equivalent, for somebody notices", all[index]);
    code = 1;
  }
  const auto noticed_count = counts[static_cast<std::size_t>(Notice::kByAnswers)] +
                             counts[static_cast<std::size_t>(Notice::kByTraces)];
  const auto tried_count = noticed_count + counts[0];
  std::printf("%llu of %llu are noticed, %llu of them by traces alone; %llu change nothing\n",
              static_cast<unsigned long long>(noticed_count),
              static_cast<unsigned long long>(tried_count),
              static_cast<unsigned long long>(counts[static_cast<std::size_t>(Notice::kByTraces)]),
              static_cast<unsigned long long>(equivalent_count));
  return code;
}

}  // namespace
}  // namespace kerf::cuda::ptx

int main(int argc, char** argv) {
  const std::string shards = argc > 1 ? argv[1] : "0/1";
  const auto number = [](const std::string& text) {
    return std::strtoull(text.c_str(), nullptr, /*base=*/10);
  };
  const kerf::cuda::ptx::Choice choice{number(shards), number(shards.substr(shards.find('/') + 1)),
                                       argc > 2 ? number(argv[2]) : 1,
                                       argc > 3 ? number(argv[3]) : 1};
  if (choice.shard_count == 0 || choice.one_in == 0) {
    std::fprintf(stderr, "usage: ptx_mutants [SHARD/COUNT [SEED [ONE_IN]]]\n");
    return 2;
  }
  return kerf::cuda::ptx::Run(choice);
}
