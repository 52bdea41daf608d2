// Which kernels cut and fingerprint batches of one profile, and what they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/kernel/extreme_hash.h"
#include "kernels/cuda/kernel/extreme_marks.h"
#include "kernels/cuda/kernel/extreme_rule.h"
#include "kernels/cuda/kernel/gear_marks.h"
#include "kernels/cuda/kernel/linear_marks.h"
#include "kernels/cuda/kernel/peak_marks.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::cuda {

// Chunks of a profile that is cut on a GPU are not smaller: a slot has room for so many.
inline constexpr std::uint32_t kMinDeviceChunkBytes = 256;
// Nor does it have more candidates on random data than leave room for four times as many in a slot,
// where each may be one of so many bytes (a power of two).
inline constexpr std::uint32_t kMinCandidateBytesLog2 = 6;

// Windows of mincdc and maxcdc are not wider: a thread compares all candidates of one, for each
// chunk of a walk, so that data made for it could keep a batch longer than a device may take.
inline constexpr std::uint32_t kMaxDeviceWindowBytes = 64 << 10;

// A gear hash has so many.
inline constexpr std::size_t kGearTableBytes = 256 * sizeof(std::uint32_t);
inline constexpr std::size_t kMaxGearTableBytes = 256 * sizeof(std::uint64_t);

// Of maxp-local.
struct PeakRule {
  std::uint32_t window_bytes;
};

// Of mincdc and maxcdc; the rest is that of their cuts.
struct ExtremeMarkRule {
  ExtremeReach reach;
};

using MarkRule = std::variant<GearHash<std::uint32_t>::Args, GearHash<std::uint64_t>::Args,
                              CrcHash::Args, RabinHash::Args, PeakRule, ExtremeMarkRule>;
using AnyCutRule =
    std::variant<CutRule, WideCutRule, ExtremeRule<MinCdcHashes>, ExtremeRule<MaxCdcHashes>>;

// Where the cuts of a batch are chosen from its candidates.
enum class Selection : std::uint8_t {
  // K3 to K5, and the fingerprints behind them.
  kDevice,
  // Candidates come back, and the CPU selects and fingerprints (host_selection.h): of digests that
  // no kernel makes and the CPU makes faster than bytes come to a device.
  kHost,
};

// Immutable once it is made.
struct BatchPlan {
  Profile profile;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  Selection selection = Selection::kDevice;
  MarkRule marks;
  // Without its table, which the slot has.
  AnyCutRule cut_rule;
  // Of a rule with a gear hash, as its cuts are given it: kGearTableBytes, or kMaxGearTableBytes
  // where it has 64 bits; else nothing.
  std::vector<std::uint8_t> gear_table;
  std::uint32_t candidate_bytes_log2 = 0;
  // What the CPU cuts with where the GPU does not.
  std::unique_ptr<const Chunker> chunker;
};

// None for a profile that no kernel knows: those with a TwoStageRule, fastcdc2020, mincdc and
// maxcdc, with chunks of at least kMinDeviceChunkBytes and candidates that are rare enough. Nor for
// mincdc and maxcdc with a digest that the host makes, or wider windows than kMaxDeviceWindowBytes.
std::shared_ptr<const BatchPlan> MakeBatchPlan(const Profile& profile,
                                               DigestAlgorithm digest_algorithm);

}  // namespace kerf::cuda
