// Which profiles are said to be cut on a GPU (`kerf profiles`, MakeBatchPlan): just those that the
// plug-in's list of kernels cuts. That a plug-in has this list, Plugin::Load makes sure.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

// Of the named profiles; every algorithm has one.
std::set<std::string> AlgorithmsOnGpu() {
  std::set<std::string> algorithms;
  for (const NamedProfile& named : NamedProfiles()) {
    const bool is_on_gpu =
        MakeBatchPlan(*ParseProfile(named.name), DigestAlgorithm::kBlake3) != nullptr;
    if (is_on_gpu) {
      algorithms.emplace(named.parameters.substr(0, named.parameters.find(':')));
    }
  }
  return algorithms;
}

TEST(GpuProfiles, AreOfTheseAlgorithms) {
  EXPECT_EQ(AlgorithmsOnGpu(), (std::set<std::string>{"crc", "fastcdc", "fastcdc2020", "gear",
                                                      "maxcdc", "maxp-local", "mincdc", "rabin"}));
}

// Of wider ones data can be made that keeps a GPU busy until it is taken for lost.
TEST(GpuProfiles, HaveNoWideWindows) {
  for (const char* profile : {"mincdc:min=256,max=65792", "maxcdc:min=256,max=65792"}) {
    EXPECT_NE(MakeBatchPlan(*ParseProfile(profile), DigestAlgorithm::kBlake3), nullptr);
  }
  for (const char* profile : {"mincdc:min=256,max=65793", "maxcdc:min=256,max=4194304"}) {
    EXPECT_EQ(MakeBatchPlan(*ParseProfile(profile), DigestAlgorithm::kBlake3), nullptr);
  }
}

TEST(GpuProfiles, AreCutByTheKernelsThatAPlugInHas) {
  EmulatedDevice device(EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = TestSeed()});
  const auto slot = BatchSlot::Make(device, {.batch_bytes = 512 << 10, .piece_count = 1});
  ASSERT_TRUE(slot.ok()) << slot.status();
  Random(TestSeed()).Fill((*slot)->bytes());
  const SlotPiece whole{0, static_cast<std::uint32_t>((*slot)->bytes().size()), true};
  for (const NamedProfile& named : NamedProfiles()) {
    const std::shared_ptr<const BatchPlan> plan =
        MakeBatchPlan(*ParseProfile(named.name), DigestAlgorithm::kBlake3);
    if (plan == nullptr) continue;
    SCOPED_TRACE(named.name);
    const absl::Status started = (*slot)->Start(plan, {&whole, 1});
    ASSERT_TRUE(started.ok()) << started;
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) is_done = (*slot)->IsDone();
    ASSERT_TRUE(is_done.ok()) << is_done.status();
    ComparedPiece piece{plan, (*slot)->bytes(), true, {}};
    ASSERT_TRUE((*slot)->TakeCuts(0, piece.cuts)) << "left to the CPU";
    EXPECT_EQ(DifferenceOf(piece), "");
  }
}

}  // namespace
}  // namespace kerf::cuda
