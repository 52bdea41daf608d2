// ptx_mutants [SHARD/COUNT [SEED]]: changes the PTX of the plug-in's kernels in one place after
// another (a barrier is left out, a mask is another one), and says of which changes nobody takes
// notice: neither the machine, which finds what a GPU would not forgive, nor who compares cuts and
// digests with the CPU's.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "kernels/cuda/check/fuzz_cases.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/ptx/modules.h"
#include "kernels/cuda/ptx/ptx_machine.h"
#include "kernels/profile.h"

namespace kerf::cuda::ptx {
namespace {

constexpr std::string_view kProfiles[] = {"gear-8k",   "fastcdc-8k",    "fastcdc2020-8k",
                                          "crc-8k",    "rabin-8k",      "mincdc-8k",
                                          "maxcdc-8k", "maxp-local-8k", "fastcdc2020-64k"};
constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256};
// Small ones first: most mutants are found by them.
constexpr std::size_t kSizesBytes[] = {48 << 10, 320 << 10, 2 << 20};
constexpr std::size_t kSmallPieces = 24;
// Of any plan and any pieces.
constexpr std::size_t kFuzzedBatches = 120;
constexpr std::size_t kFuzzedBytes = 256 << 10;

struct Workload {
  std::shared_ptr<const BatchPlan> plan;
  SlotLimits limits;
  std::vector<std::uint8_t> bytes;
  std::vector<SlotPiece> pieces;
  // What runs in it.
  std::set<const Kernel*> kernels;
};

struct ChosenMutant {
  const ModuleKernels* module = nullptr;
  std::uint32_t number = 0;
};

// Why it is no good; nothing: all is well.
std::optional<std::string> Notice(Workload& workload, std::uint64_t seed,
                                  const ChosenMutant& mutant) {
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
  if (mutant.module == nullptr) workload.kernels = machine->launched;
  if (!status.ok()) return std::string(status.message());
  std::vector<ComparedPiece> compared;
  for (std::size_t number = 0; number < workload.pieces.size(); ++number) {
    const SlotPiece& piece = workload.pieces[number];
    ComparedPiece each{
        workload.plan, (*slot)->bytes().subspan(piece.offset, piece.size_bytes), piece.is_end, {}};
    if ((*slot)->TakeCuts(number, each.cuts)) compared.push_back(std::move(each));
  }
  const std::string difference = DifferenceOfAny(compared);
  if (!difference.empty()) return difference;
  return std::nullopt;
}

// A batch of pieces of about the same size, with some that are small, empty, or at their end.
Workload NamedWorkload(std::string_view profile, DigestAlgorithm digest, std::size_t size_bytes,
                       const FuzzData& data, Random& random) {
  Workload workload;
  workload.plan = MakeBatchPlan(*ParseProfile(profile), digest);
  KERF_CHECK(workload.plan != nullptr);
  workload.limits = {.batch_bytes = size_bytes, .piece_count = kSmallPieces + 4};
  workload.bytes.resize(size_bytes);
  random.Fill(workload.bytes);
  // A part in which repetitions make few marks, or many.
  data.Fill(random, std::span(workload.bytes).subspan(size_bytes / 2, size_bytes / 8));
  std::size_t offset = 0;
  for (std::size_t number = 0; number < kSmallPieces; ++number) {
    const std::size_t piece_bytes = random.Below(size_bytes / 4 / kSmallPieces);
    workload.pieces.push_back({static_cast<std::uint32_t>(offset),
                               static_cast<std::uint32_t>(piece_bytes), random.OneIn(2)});
    offset += (piece_bytes + 15) / 16 * 16;
  }
  workload.pieces.push_back({static_cast<std::uint32_t>(offset),
                             static_cast<std::uint32_t>(size_bytes / 2 - offset), true});
  workload.pieces.push_back({static_cast<std::uint32_t>(size_bytes / 2),
                             static_cast<std::uint32_t>(size_bytes / 2 - 37), random.OneIn(2)});
  return workload;
}

Workload FuzzedWorkload(const FuzzData& data, Random& random) {
  Workload workload;
  workload.plan = AnyPlan(random, kMaxMaxBytes);
  workload.limits = {.batch_bytes = kFuzzedBytes, .piece_count = 64};
  workload.bytes.resize(kFuzzedBytes);
  std::size_t offset = 0;
  while (workload.pieces.size() < 64 && offset < kFuzzedBytes) {
    const std::size_t piece_bytes = AnySize(random, kFuzzedBytes - offset);
    data.Fill(random, std::span(workload.bytes).subspan(offset, piece_bytes));
    workload.pieces.push_back({static_cast<std::uint32_t>(offset),
                               static_cast<std::uint32_t>(piece_bytes), random.OneIn(2)});
    offset += (piece_bytes + 15) / 16 * 16 + random.Below(4) * 16;
  }
  return workload;
}

std::vector<Workload> MakeWorkloads(std::uint64_t seed) {
  const FuzzData data(1 << 20);
  Random random(seed);
  std::vector<Workload> workloads;
  const auto named = [&](std::size_t size_bytes) {
    for (const std::string_view profile : kProfiles) {
      for (const DigestAlgorithm digest : kDigests) {
        workloads.push_back(NamedWorkload(profile, digest, size_bytes, data, random));
      }
    }
  };
  named(kSizesBytes[0]);
  named(kSizesBytes[1]);
  for (std::size_t count = 0; count < kFuzzedBatches; ++count) {
    workloads.push_back(FuzzedWorkload(data, random));
  }
  named(kSizesBytes[2]);
  return workloads;
}

const Kernel* KernelOf(const ModuleKernels& module, std::string_view name) {
  const auto found = std::find_if(module.kernels.begin(), module.kernels.end(),
                                  [name](const Kernel& kernel) { return kernel.name == name; });
  KERF_CHECK(found != module.kernels.end());
  return &*found;
}

bool IsNoticed(std::vector<Workload>& workloads, std::uint64_t seed, const ChosenMutant& mutant) {
  const Mutant& what = mutant.module->mutants[mutant.number - 1];
  const Kernel* const kernel = KernelOf(*mutant.module, what.kernel);
  return std::any_of(workloads.begin(), workloads.end(), [&](Workload& workload) {
    return workload.kernels.contains(kernel) && Notice(workload, seed, mutant).has_value();
  });
}

int Run(std::uint64_t shard, std::uint64_t shard_count, std::uint64_t seed) {
  std::vector<Workload> workloads = MakeWorkloads(seed);
  for (Workload& workload : workloads) {
    const auto noticed = Notice(workload, seed, {});
    if (!noticed.has_value()) continue;
    std::printf("without a mutant, %s: %s\n", FormatProfile(workload.plan->profile).c_str(),
                noticed->c_str());
    return 1;
  }
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  std::uint64_t noticed_count = 0;
  for (const ModuleKernels* module : AllModules()) {
    for (std::uint32_t mutant = 1; mutant <= module->mutants.size(); ++mutant) {
      if (number++ % shard_count != shard) continue;
      ++count;
      if (IsNoticed(workloads, seed, {module, mutant})) {
        ++noticed_count;
        continue;
      }
      const Mutant& what = module->mutants[mutant - 1];
      std::printf("nobody notices: %s:%u, %s, %s\n", module->file, what.line, what.kernel,
                  what.what);
      std::fflush(stdout);
    }
  }
  std::printf("%llu of %llu are noticed\n", static_cast<unsigned long long>(noticed_count),
              static_cast<unsigned long long>(count));
  return 0;
}

}  // namespace
}  // namespace kerf::cuda::ptx

int main(int argc, char** argv) {
  const std::string shards = argc > 1 ? argv[1] : "0/1";
  const auto number = [](const std::string& text) {
    return std::strtoull(text.c_str(), nullptr, /*base=*/10);
  };
  return kerf::cuda::ptx::Run(number(shards), number(shards.substr(shards.find('/') + 1)),
                              argc > 2 ? number(argv[2]) : 1);
}
