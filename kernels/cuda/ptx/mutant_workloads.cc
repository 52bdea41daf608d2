#include "kernels/cuda/ptx/mutant_workloads.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/random.h"
#include "kernels/chunker.h"
#include "kernels/cuda/check/fuzz_cases.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/cut_rule.h"
#include "kernels/cuda/pipeline/rule_table.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/reference/gear.h"
#include "kernels/reference/rules.h"

namespace kerf::cuda::ptx {
namespace {

// Of each rule the smallest chunks, and the most marks, that a GPU is given.
constexpr std::string_view kDense[] = {
    "gear:min=256,avg=256,max=512", "fastcdc:min=256,avg=1024,max=3000,level=2",
    "fastcdc2020:min=256,avg=1024,max=3000,level=0", "crc:min=256,bits=8,max=700",
    "rabin:min=256,avg=256,max=900", "maxp-local:window=256,max=1200", "mincdc:min=256,max=1024",
    "maxcdc:min=256,max=1024",
    // Windows that have less than a whole lead on both sides.
    "mincdc:min=256,max=720", "maxcdc:min=256,max=720"};
constexpr std::string_view kNamed[] = {"gear-8k",   "fastcdc-8k",    "fastcdc2020-8k",
                                       "crc-8k",    "rabin-8k",      "mincdc-8k",
                                       "maxcdc-8k", "maxp-local-8k", "fastcdc2020-64k"};
constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256};

constexpr std::size_t kDenseBytes = 64 << 10;
constexpr std::size_t kNamedBytes[] = {48 << 10, 320 << 10};
constexpr std::size_t kLargeBytes = 1 << 20;
constexpr std::size_t kSmallPieces = 24;
// Of any plan and any pieces.
constexpr std::size_t kFuzzedBatches = 60;
constexpr std::size_t kFuzzedBytes = 256 << 10;
constexpr std::size_t kFuzzedPieces = 64;

std::shared_ptr<const BatchPlan> PlanOf(std::string_view profile, DigestAlgorithm digest) {
  const auto parsed = ParseProfile(profile);
  KERF_CHECK(parsed.ok());
  auto plan = MakeBatchPlan(*parsed, digest);
  KERF_CHECK(plan != nullptr);
  return plan;
}

std::size_t Aligned(std::size_t size_bytes, std::size_t alignment) {
  return (size_bytes + alignment - 1) / alignment * alignment;
}

Workload WorkloadOf(std::shared_ptr<const BatchPlan> plan, std::size_t size_bytes,
                    std::size_t piece_count) {
  Workload workload;
  workload.plan = std::move(plan);
  workload.limits = {.batch_bytes = Aligned(size_bytes, kBatchAlignmentBytes),
                     .piece_count = piece_count};
  workload.bytes.resize(workload.limits.batch_bytes);
  return workload;
}

// Behind the others.
std::span<std::uint8_t> AddPiece(Workload& workload, std::size_t size_bytes, bool is_end) {
  const std::size_t offset =
      workload.pieces.empty()
          ? 0
          : Aligned(workload.pieces.back().offset + workload.pieces.back().size_bytes,
                    kPieceAlignmentBytes);
  KERF_CHECK(offset + size_bytes <= workload.bytes.size());
  workload.pieces.push_back(
      {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size_bytes), is_end});
  return std::span(workload.bytes).subspan(offset, size_bytes);
}

// Some that are small, empty, or at their end, and two large ones.
Workload Mixed(std::shared_ptr<const BatchPlan> plan, std::size_t size_bytes, const FuzzData& data,
               Random& random) {
  Workload workload = WorkloadOf(std::move(plan), size_bytes, kSmallPieces + 2);
  random.Fill(workload.bytes);
  // A part in which repetitions make few marks, or many.
  data.Fill(random, std::span(workload.bytes).subspan(size_bytes / 2, size_bytes / 8));
  std::size_t used_bytes = 0;
  for (std::size_t number = 0; number < kSmallPieces; ++number) {
    const std::size_t piece_bytes = random.Below(size_bytes / 4 / kSmallPieces);
    AddPiece(workload, piece_bytes, random.OneIn(2));
    used_bytes += Aligned(piece_bytes, kPieceAlignmentBytes);
  }
  AddPiece(workload, size_bytes / 2 - used_bytes, true);
  AddPiece(workload, size_bytes / 2 - 37, random.OneIn(2));
  return workload;
}

Workload Fuzzed(const FuzzData& data, Random& random) {
  Workload workload = WorkloadOf(AnyPlan(random, kMaxMaxBytes), kFuzzedBytes, kFuzzedPieces);
  std::size_t used_bytes = 0;
  while (workload.pieces.size() < kFuzzedPieces && used_bytes < kFuzzedBytes) {
    const std::size_t piece_bytes = AnySize(random, kFuzzedBytes - used_bytes);
    data.Fill(random, AddPiece(workload, piece_bytes, random.OneIn(2)));
    used_bytes += Aligned(piece_bytes, kPieceAlignmentBytes);
  }
  return workload;
}

void Repeat(std::size_t period_bytes, std::span<std::uint8_t> bytes) {
  for (std::size_t index = period_bytes; index < bytes.size(); ++index) {
    bytes[index] = bytes[index - period_bytes];
  }
}

struct Stretches {
  // Of the block that repeats itself.
  std::size_t least_period_bytes;
  std::size_t most_period_bytes;
  // Of a stretch of it, and of random bytes that may follow.
  std::size_t least_bytes;
  std::size_t most_bytes;
  std::size_t most_random_bytes;
};

// Long walks: where a block repeats itself no chunk ends at a candidate; random bytes have some.
void FillWithStretches(const Stretches& stretches, Random& random, std::span<std::uint8_t> bytes) {
  random.Fill(bytes);
  while (!bytes.empty()) {
    const std::size_t stretch_bytes = std::min<std::size_t>(
        bytes.size(), random.Between(stretches.least_bytes, stretches.most_bytes));
    Repeat(random.Between(stretches.least_period_bytes, stretches.most_period_bytes),
           bytes.first(stretch_bytes));
    bytes = bytes.subspan(stretch_bytes);
    if (random.OneIn(2)) {
      bytes = bytes.subspan(random.Below(std::min(bytes.size(), stretches.most_random_bytes) + 1));
    }
  }
}

Workload Stretched(std::string_view profile, const Stretches& stretches, std::size_t piece_count,
                   std::size_t piece_bytes, Random& random) {
  Workload workload =
      WorkloadOf(PlanOf(profile, kDigests[random.Below(2)]),
                 piece_count * Aligned(piece_bytes, kPieceAlignmentBytes), piece_count);
  while (workload.pieces.size() < piece_count) {
    FillWithStretches(stretches, random, AddPiece(workload, piece_bytes, random.OneIn(2)));
  }
  return workload;
}

// One walk of so many chunks that who tries none of them at once gives it up.
Workload OneBlockRepeated(std::shared_ptr<const BatchPlan> plan, std::size_t block_bytes,
                          std::span<const std::uint8_t> block) {
  constexpr std::size_t kChunks = 960;
  Workload workload = WorkloadOf(std::move(plan), kChunks * block_bytes, 1);
  const std::span<std::uint8_t> piece = AddPiece(workload, kChunks * block_bytes, true);
  std::copy(block.begin(), block.end(), piece.begin());
  Repeat(block.size(), piece);
  return workload;
}

// Of mincdc and maxcdc with min=256: a period of a power of two bytes has chunks of 256.
Workload Period(std::string_view profile, std::size_t period_bytes, Random& random) {
  std::vector<std::uint8_t> block(period_bytes);
  random.Fill(block);
  return OneBlockRepeated(PlanOf(profile, kDigests[0]), 256, block);
}

template <class Word>
Word Rolled(Word hash, const BasicCutRule<Word>& rule, std::uint8_t byte) {
  return static_cast<Word>((hash << 1) + rule.table[byte]);
}

// A block that ends where the hash of few bytes, from where a chunk that begins with it may end on,
// meets the mask: `least` of them, or more. The last of them is the first of the next block.
template <class Word>
std::vector<std::uint8_t> BlockWithLead(const BasicCutRule<Word>& rule, std::uint32_t least,
                                        Random& random) {
  std::vector<std::uint8_t> block(rule.first_bytes);
  while (true) {
    random.Fill(block);
    Word hash = 0;
    for (std::uint32_t offset = rule.lead_bytes; offset < rule.first_bytes; ++offset) {
      const Word mask = offset < rule.avg_bytes ? rule.strict_mask : rule.loose_mask;
      if (offset >= rule.lead_bytes + least && (Rolled(hash, rule, block[0]) & mask) == 0) {
        block.resize(offset);
        return block;
      }
      hash = Rolled(hash, rule, block[offset]);
      if ((hash & mask) == 0) break;
    }
  }
}

// All chunks of a piece are cut by the hash of few bytes.
Workload LeadCuts(std::string_view profile, std::uint32_t least, Random& random) {
  const auto plan = PlanOf(profile, kDigests[1]);
  const std::vector<std::uint8_t> block = std::visit(
      [&]<class Rule>(Rule rule) -> std::vector<std::uint8_t> {
        if constexpr (requires { rule.lead_bytes; }) {
          SetTable(plan->gear_table.data(), rule);
          return BlockWithLead(rule, least, random);
        } else {
          KERF_CHECK(false);
        }
      },
      plan->cut_rule);
  return OneBlockRepeated(plan, block.size(), block);
}

// One mark in each period, at which a chunk ends: a path that comes by every node, and fills more
// than a tile of the ranking.
Workload LongPath(Random& random) {
  constexpr std::size_t kPeriodBytes = 300;
  constexpr std::size_t kPeriods = 2'600;
  const auto plan = PlanOf("gear:min=256,avg=256,max=512", kDigests[0]);
  CutRule rule = std::get<CutRule>(plan->cut_rule);
  SetTable(plan->gear_table.data(), rule);
  std::vector<std::uint8_t> block(6 * kPeriodBytes);
  while (true) {
    random.Fill(std::span(block).first(kPeriodBytes));
    Repeat(kPeriodBytes, block);
    std::uint32_t hash = 0;
    std::size_t mark_count = 0;
    std::size_t mark = 0;
    for (std::size_t at = 0; at < 2 * kPeriodBytes; ++at) {
      hash = Rolled(hash, rule, block[at]);
      if (at < kPeriodBytes || (hash & rule.loose_mask) != 0) continue;
      ++mark_count;
      mark = at;
    }
    if (mark_count != 1) continue;
    if (plan->chunker->NextCut(std::span(block).subspan(mark)) == kPeriodBytes) break;
  }
  Workload workload = WorkloadOf(plan, kPeriods * kPeriodBytes, 1);
  const std::span<std::uint8_t> piece = AddPiece(workload, kPeriods * kPeriodBytes, true);
  std::copy_n(block.begin(), kPeriodBytes, piece.begin());
  Repeat(kPeriodBytes, piece);
  return workload;
}

// Bytes whose numbers (extreme_rule.h) are great, but that of the last one in each `step`, and a
// smaller one kBefore in front of it, which is why the last one has no mark. So chunks of mincdc
// and maxcdc end there, at no candidate, and all candidates of their windows lose; and half of all
// numbers would win.
void FillWithSteps(const Profile& profile, std::size_t step_bytes, Random& random,
                   std::span<std::uint8_t> bytes) {
  constexpr std::size_t kBefore = 200;
  const bool is_mincdc = profile.algorithm == Algorithm::kMinCdc;
  std::uint32_t state = 0;
  const auto behind = [&](std::uint32_t byte) {
    return is_mincdc ? state >> 8 | byte << 24 : (state << 1) + kGearTable[byte];
  };
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::size_t place = at % step_bytes;
    const bool is_last = place == step_bytes - 1;
    const std::uint32_t least = is_last ? 0x78 : place == step_bytes - 1 - kBefore ? 0x70 : 0x80;
    const std::uint32_t most = least == 0x80 ? 0xFF : least + 7;
    std::uint32_t byte = static_cast<std::uint32_t>(random.Below(256));
    for (int tries = 0; tries < 256; ++tries) {
      const std::uint32_t number = is_mincdc ? MinCdcHash(behind(byte)) : ~behind(byte);
      if (least <= number >> 24 && number >> 24 <= most) break;
      byte = (byte + 1) % 256;
    }
    bytes[at] = static_cast<std::uint8_t>(byte);
    state = behind(byte);
  }
}

// `profile` has max=2*min. Pieces of one long walk, and of short ones.
Workload Steps(std::string_view profile, Random& random) {
  const auto plan = PlanOf(profile, kDigests[random.Below(2)]);
  // So the last byte of a step is 150 behind the beginning of a window that begins where the step
  // before has ended, the smaller one is in front of it, and the next smaller one behind its end.
  const std::size_t step_bytes = plan->profile.min_bytes + 150;
  constexpr std::size_t kSteps[] = {14, 6, 6, 4};
  Workload workload = WorkloadOf(plan, 31 * step_bytes, std::size(kSteps));
  for (const std::size_t steps : kSteps) {
    FillWithSteps(plan->profile, step_bytes, random, AddPiece(workload, steps * step_bytes, true));
  }
  return workload;
}

// Few bytes are great ones: peaks of wide windows.
Workload Peaks(Random& random) {
  constexpr std::size_t kBytes = 192 << 10;
  constexpr std::uint64_t kPeakBytes = 400;
  Workload workload = WorkloadOf(PlanOf("maxp-local:window=2048,max=9000", kDigests[0]), kBytes, 1);
  for (std::uint8_t& byte : AddPiece(workload, kBytes, true)) {
    byte = static_cast<std::uint8_t>(random.OneIn(kPeakBytes) ? random.Between(4, 255)
                                                              : random.Below(4));
  }
  return workload;
}

// More than a scan's tile has, or, of more than 65,536, than its totals have threads.
Workload ManyPieces(std::size_t count, DigestAlgorithm digest, Random& random) {
  Workload workload = WorkloadOf(PlanOf(kDense[0], digest), count * kPieceAlignmentBytes, count);
  while (workload.pieces.size() < count) {
    random.Fill(AddPiece(workload, random.Between(1, kPieceAlignmentBytes), !random.OneIn(8)));
  }
  return workload;
}

}  // namespace

std::vector<Workload> MakeDenseWorkloads(std::uint64_t seed) {
  const FuzzData data(1 << 20);
  Random random(seed);
  std::vector<Workload> all;
  for (const DigestAlgorithm digest : kDigests) {
    for (const std::string_view profile : kDense) {
      all.push_back(Mixed(PlanOf(profile, digest), kDenseBytes, data, random));
    }
  }
  constexpr Stretches kOfGear{17, 120, 3'000, 6'000, 500};
  all.push_back(Stretched("gear:min=256,avg=256,max=320", kOfGear, 48, 3'600, random));
  all.push_back(Stretched("fastcdc2020:min=256,avg=1024,max=1024,level=0",
                          {48, 200, 11'000, 16'000, 500}, 24, 12'000, random));
  for (const std::string_view profile : {"mincdc:min=256,max=1024", "maxcdc:min=256,max=1024"}) {
    all.push_back(Stretched(profile, {2, 230, 4'000, 7'000, 2'000}, 12, 14'000, random));
  }
  // Windows that have several candidates.
  for (const std::string_view profile : {"mincdc:min=256,max=4096", "maxcdc:min=256,max=4096"}) {
    all.push_back(Stretched(profile, {2, 230, 8'000, 12'000, 6'000}, 5, 48'000, random));
  }
  for (const std::string_view profile : {"mincdc:min=1024,max=2048", "maxcdc:min=1024,max=2048",
                                         "mincdc:min=4096,max=8192", "maxcdc:min=4096,max=8192"}) {
    all.push_back(Steps(profile, random));
  }
  for (const DigestAlgorithm digest : kDigests) all.push_back(ManyPieces(700, digest, random));
  all.push_back(Peaks(random));
  return all;
}

std::vector<Workload> MakeWorkloads(std::uint64_t seed) {
  std::vector<Workload> all = MakeDenseWorkloads(seed);
  const FuzzData data(1 << 20);
  Random random(~seed);
  all.push_back(LeadCuts("gear:min=256,avg=256,max=512", 8, random));
  all.push_back(LeadCuts("fastcdc2020:min=256,avg=1024,max=2048,level=0", 18, random));
  for (const std::size_t period_bytes : {32, 64, 128, 128}) {
    all.push_back(Period("mincdc:min=256,max=1024", period_bytes, random));
    all.push_back(Period("maxcdc:min=256,max=1024", period_bytes, random));
  }
  for (const std::size_t size_bytes : kNamedBytes) {
    for (const std::string_view profile : kNamed) {
      for (const DigestAlgorithm digest : kDigests) {
        all.push_back(Mixed(PlanOf(profile, digest), size_bytes, data, random));
      }
    }
  }
  all.push_back(LongPath(random));
  // Windows of more candidates than a block of Edges has numbers of.
  for (const std::string_view profile :
       {"mincdc:min=4096,max=65536", "maxcdc:min=4096,max=65536"}) {
    all.push_back(Mixed(PlanOf(profile, kDigests[0]), 512 << 10, data, random));
  }
  for (const DigestAlgorithm digest : kDigests) all.push_back(ManyPieces(69'000, digest, random));
  for (std::size_t count = 0; count < kFuzzedBatches; ++count) {
    all.push_back(Fuzzed(data, random));
  }
  for (const std::string_view profile : kNamed) {
    all.push_back(Mixed(PlanOf(profile, kDigests[random.Below(2)]), kLargeBytes, data, random));
  }
  return all;
}

}  // namespace kerf::cuda::ptx
