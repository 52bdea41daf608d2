// What the machine finds: a kernel with each fault, and the same without it (testdata/).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/test_seed.h"
#include "kernels/cuda/ptx/findings.h"
#include "kernels/cuda/ptx/kernels.h"
#include "kernels/cuda/ptx/machine.h"
#include "kernels/cuda/ptx/memory.h"

namespace kerf::cuda::ptx {

extern const ModuleKernels kArrayFaults;
extern const ModuleKernels kBlockFaults;

namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kThreads = 64;

struct FoundKernel {
  const ModuleKernels* module;
  const Kernel* kernel;
};

FoundKernel Find(std::string_view name) {
  for (const ModuleKernels* module : {&kArrayFaults, &kBlockFaults}) {
    for (const Kernel& kernel : module->kernels) {
      if (kernel.name == name) return {module, &kernel};
    }
  }
  KERF_CHECK(false);
}

// A device with two arrays of a word a thread, each in a group of its own.
class MachineTest : public ::testing::Test {
 protected:
  struct Args {
    std::uint64_t a;
    std::uint64_t b;
    std::uint32_t n;
    std::uint32_t nothing = 0;
  };

  MachineTest() : a_(kWords), b_(kWords) {
    Take(a_);
    Take(b_);
  }

  // Of the words in the middle: what is around them is nobody's.
  std::span<std::uint8_t> Bytes(std::vector<std::uint32_t>& words) const {
    return {reinterpret_cast<std::uint8_t*>(words.data() + kGapWords), kThreads * 4};
  }
  void Take(std::vector<std::uint32_t>& words) {
    const std::span<std::uint8_t> bytes = Bytes(words);
    memory_.Taken({&bytes, 1});
  }
  void Fill(std::vector<std::uint32_t>& words, std::uint32_t value) {
    std::fill(words.begin() + kGapWords, words.end() - kGapWords, value);
    memory_.CopiedIn(Bytes(words));
  }
  std::uint32_t A(std::uint32_t thread) const { return a_[kGapWords + thread]; }

  void Run(std::string_view name, std::uint32_t block_count = 1, bool is_b_a = false) {
    const FoundKernel found = Find(name);
    const Args args{reinterpret_cast<std::uint64_t>(Bytes(a_).data()),
                    reinterpret_cast<std::uint64_t>(Bytes(is_b_a ? a_ : b_).data()), n_};
    machine_.Run(*found.module, *found.kernel,
                 {reinterpret_cast<const std::uint8_t*>(&args), sizeof args},
                 {.thread_count = thread_count_,
                  .block_count = block_count,
                  .shared_bytes = 4 * kThreads,
                  .seed = TestSeed()});
  }

  void ExpectOnly(FindingKind kind) {
    EXPECT_FALSE(findings_.empty()) << NameOf(kind);
    for (const Finding& finding : findings_.all()) {
      EXPECT_EQ(NameOf(finding.kind), std::string_view(NameOf(kind))) << finding.text;
    }
    findings_.Clear();
  }
  void ExpectNothing() { EXPECT_EQ(findings_.Text(), ""); }

  static constexpr std::size_t kGapWords = 16;
  static constexpr std::size_t kWords = kThreads + 2 * kGapWords;
  Findings findings_;
  Memory memory_{findings_};
  Machine machine_{memory_, findings_};
  // At multiples of 16.
  std::vector<std::uint32_t> a_;
  std::vector<std::uint32_t> b_;
  std::uint32_t n_ = 0;
  std::uint32_t thread_count_ = kThreads;
};

TEST_F(MachineTest, RunsThreadsToTheirBarriers) {
  Run("Neighbours", 3);
  // Each block writes the same words, which is another fault.
  ExpectOnly(FindingKind::kRace);
  Run("Neighbours");
  ExpectNothing();
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) EXPECT_EQ(A(thread), thread ^ 1);
}

// So a kernel that has become another one is seen where its answer is the same.
TEST_F(MachineTest, TellsWhatKernelsLeaveAndHowOftenTheyWait) {
  EXPECT_EQ(memory_.HashOfWritten(), 0u);
  Run("Neighbours");
  // To the barrier, and to the end.
  EXPECT_EQ(machine_.interval_count(), 2u);
  const std::uint64_t hash = memory_.HashOfWritten();
  EXPECT_NE(hash, 0u);
  Run("Neighbours");
  EXPECT_EQ(memory_.HashOfWritten(), hash);
  EXPECT_EQ(machine_.interval_count(), 4u);
  a_[kGapWords + 3] ^= 1;
  EXPECT_NE(memory_.HashOfWritten(), hash);
  // What was left for the batch before is nothing.
  memory_.CopiedIn(Bytes(a_));
  EXPECT_EQ(memory_.HashOfWritten(), 0u);
  Run("GlobalBytes");
  EXPECT_NE(memory_.HashOfWritten(), 0u);
  ExpectNothing();
}

TEST_F(MachineTest, FindsWhatNoBarrierOrders) {
  Run("SharedRace");
  EXPECT_THAT(findings_.Text(), HasSubstr("block_faults.ptx:"));
  EXPECT_TRUE(findings_.Has(FindingKind::kRace));
  // Whoever reads first reads what nobody has written.
  EXPECT_TRUE(findings_.Has(FindingKind::kUninitialised));
  findings_.Clear();
  Run("SharedWrites");
  ExpectOnly(FindingKind::kRace);
  thread_count_ = 1;
  Run("SharedWrites");
  ExpectNothing();
}

TEST_F(MachineTest, FindsWhatNobodyHasWritten) {
  Run("SharedUninitialised");
  ExpectOnly(FindingKind::kUninitialised);
  Run("Copy");
  ExpectOnly(FindingKind::kUninitialised);
  Fill(b_, 7);
  Run("Copy");
  ExpectNothing();
  EXPECT_EQ(A(kThreads - 1), 7u);
  memory_.CopiedOut(Bytes(a_));
  ExpectNothing();
}

// Compilers load more than they need.
TEST_F(MachineTest, PartsOfVectorsCountWhereTheyAreUsed) {
  thread_count_ = kThreads / 2;
  Run("VectorUsed");
  ExpectOnly(FindingKind::kUninitialised);
  Run("VectorUnused");
  ExpectNothing();
  EXPECT_EQ(A(5), 5u);
}

TEST_F(MachineTest, FindsWhatIsOfTheBatchBefore) {
  Fill(b_, 7);
  Run("Copy");
  memory_.CopiedOut(Bytes(a_));
  ExpectNothing();
  // The next batch comes into the same group.
  memory_.CopiedIn(Bytes(a_).first(4));
  memory_.CopiedOut(Bytes(a_).first(4));
  ExpectNothing();
  memory_.CopiedOut(Bytes(a_));
  ExpectOnly(FindingKind::kUninitialised);
}

TEST_F(MachineTest, FindsWhatIsBehindAndInFrontOfArrays) {
  for (const char* name : {"GlobalBehind", "GlobalInFront", "SharedBehind", "ParameterBehind"}) {
    SCOPED_TRACE(name);
    Run(name);
    ExpectOnly(FindingKind::kOutOfBounds);
  }
  // Nothing was written there.
  EXPECT_EQ(a_[kGapWords - 1], 0u);
  EXPECT_EQ(a_[kGapWords + kThreads], 0u);
}

TEST_F(MachineTest, FindsWhatIsMisaligned) {
  Fill(a_, 1);
  Fill(b_, 1);
  for (const char* name : {"Misaligned", "MisalignedVector", "MisalignedShared"}) {
    SCOPED_TRACE(name);
    thread_count_ = 1;
    Run(name);
    ExpectOnly(FindingKind::kMisaligned);
  }
}

TEST_F(MachineTest, BytesOfAWordArePlacesOfTheirOwn) {
  Run("SharedBytes");
  ExpectNothing();
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) EXPECT_EQ(A(thread), thread ^ 1);
  Run("GlobalBytes");
  ExpectNothing();
  memory_.CopiedOut(Bytes(a_));
  ExpectNothing();
}

TEST_F(MachineTest, FindsWhatBlocksDoToEachOther) {
  Run("BlocksWrite");
  ExpectNothing();
  Run("BlocksWrite", 2);
  ExpectOnly(FindingKind::kRace);
  Fill(a_, 0);
  Run("BlocksRead", 4);
  ExpectOnly(FindingKind::kRace);
  Fill(b_, 0);
  Run("BlocksAdd", 4);
  ExpectNothing();
  EXPECT_EQ(b_[kGapWords], 4 * kThreads);
}

TEST_F(MachineTest, FindsPlainAccessesBesideAtomicOnes) {
  Run("AddShared");
  ExpectNothing();
  EXPECT_EQ(A(5), kThreads);
  Run("AddSharedRace");
  ExpectOnly(FindingKind::kRace);
}

TEST_F(MachineTest, TheLastBlockSeesWhatOthersHaveDone) {
  thread_count_ = 16;
  Fill(b_, 0);
  Run("LastBlock", 4);
  ExpectNothing();
  for (const char* name : {"LastBlockFirstFence", "LastBlockSecondFence", "LastBlockBarrier"}) {
    SCOPED_TRACE(name);
    Fill(b_, 0);
    Run(name, 4);
    ExpectOnly(FindingKind::kRace);
  }
}

TEST_F(MachineTest, FindsThreadsThatDoNotMeet) {
  Run("TwoBarriers");
  ExpectOnly(FindingKind::kDivergence);
  Run("SomeEnd");
  ExpectOnly(FindingKind::kDivergence);
}

TEST_F(MachineTest, FindsWhatIsLoadedAsReadOnlyAndWritten) {
  Fill(b_, 7);
  Run("CopyReadOnly");
  ExpectNothing();
  Fill(a_, 7);
  Run("CopyReadOnly", 1, /*is_b_a=*/true);
  ExpectOnly(FindingKind::kReadOnlyWritten);
  Run("WriteAndLoadReadOnly");
  ExpectOnly(FindingKind::kReadOnlyWritten);
  // What another launch writes is well.
  Run("BlocksWrite");
  ExpectNothing();
}

TEST_F(MachineTest, FindsDivisionsByZeroAndWhatDoesNotEnd) {
  Run("Divides");
  ExpectOnly(FindingKind::kDivisionByZero);
  n_ = 3;
  Run("Divides");
  ExpectNothing();
  EXPECT_EQ(A(7), 2u);
  thread_count_ = 2;
  Run("Endless");
  ExpectOnly(FindingKind::kEndless);
  Run("EndlessBarriers");
  ExpectOnly(FindingKind::kEndless);
}

TEST(FindingsTest, OfThousandsAFewAreKept) {
  Findings findings;
  for (int count = 0; count < 5000; ++count) findings.Add(FindingKind::kRace, "here");
  EXPECT_EQ(findings.count(), 5000u);
  EXPECT_THAT(findings.Text(), HasSubstr("race: here\n"));
  EXPECT_THAT(findings.Text(), HasSubstr("4980 more"));
}

}  // namespace
}  // namespace kerf::cuda::ptx
