#include "kernels/cuda/check/fuzz_cases.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

constexpr std::array<std::string_view, 8> kAlgorithms = {
    "gear", "fastcdc", "fastcdc2020", "crc", "rabin", "maxp-local", "mincdc", "maxcdc"};

constexpr std::array kDigests = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                 DigestAlgorithm::kXxh3_128};

// Of chunks of 256 bytes to 32 KiB, more or less.
constexpr std::uint32_t kMinAvgLog2 = 8;
constexpr std::uint32_t kMaxAvgLog2 = 15;

// Of one of kAlgorithms; perhaps out of range.
std::string AnyProfileText(Random& random) {
  const std::uint64_t avg_log2 = random.Between(kMinAvgLog2, kMaxAvgLog2);
  const std::uint64_t avg = std::uint64_t{1} << avg_log2;
  // Odd ones, and those that leave the hash no choice.
  const std::uint64_t min =
      random.OneIn(4) ? avg
                      : random.Between(kMinDeviceChunkBytes, std::max<std::uint64_t>(avg, 257));
  const std::uint64_t max = std::max(avg, min) + random.Below(random.OneIn(3) ? 50 : 7 * avg);
  const std::string_view algorithm = kAlgorithms[random.Below(kAlgorithms.size())];
  if (algorithm == "crc") return Cat("crc:min=", min, ",bits=", avg_log2, ",max=", max);
  if (algorithm == "maxp-local") {
    return Cat("maxp-local:window=", min, ",max=", 2 * min + 1 + random.Below(4 * avg));
  }
  if (algorithm == "mincdc" || algorithm == "maxcdc") {
    return Cat(algorithm, ":min=", min, ",max=", max + 1);
  }
  if (algorithm == "fastcdc" || algorithm == "fastcdc2020") {
    // Even ones, which fastcdc2020 asks for.
    return Cat(algorithm, ":min=", min & ~std::uint64_t{1}, ",avg=", avg, ",max=", max + max % 2,
               ",level=", random.Below(4));
  }
  return Cat(algorithm, ":min=", min, ",avg=", avg, ",max=", max);
}

}  // namespace

FuzzData::FuzzData(std::size_t kind_bytes) {
  for (const InputName& input : NastyInputs()) {
    kinds_.push_back(MakeInput(input.kind, input.seed, kind_bytes));
  }
}

void FuzzData::Fill(Random& random, std::span<std::uint8_t> to) const {
  if (random.OneIn(4)) return random.Fill(to);
  // Several kinds one behind the other, and here and there a byte of its own.
  while (!to.empty()) {
    const std::vector<std::uint8_t>& kind = kinds_[random.Below(kinds_.size())];
    std::size_t size_bytes = std::min(to.size(), kind.size());
    if (random.OneIn(3)) size_bytes = random.Between(1, size_bytes);
    const std::size_t offset = random.Below(kind.size() - size_bytes + 1);
    std::copy_n(kind.begin() + static_cast<std::ptrdiff_t>(offset), size_bytes, to.begin());
    if (random.OneIn(2)) to[random.Below(size_bytes)] ^= static_cast<std::uint8_t>(random.Next());
    to = to.subspan(size_bytes);
  }
}

std::shared_ptr<const BatchPlan> AnyPlan(Random& random, std::size_t max_chunk_bytes) {
  while (true) {
    const DigestAlgorithm digest = kDigests[random.Below(kDigests.size())];
    const auto named = NamedProfiles();
    const auto profile = ParseProfile(random.OneIn(4) ? named[random.Below(named.size())].parameters
                                                      : std::string_view(AnyProfileText(random)));
    // Not all numbers go together, and not all named profiles have kernels.
    if (!profile.ok() || profile->max_bytes > max_chunk_bytes) continue;
    if (auto plan = MakeBatchPlan(*profile, digest); plan != nullptr) return plan;
  }
}

std::size_t AnySize(Random& random, std::size_t most_bytes) {
  switch (random.Below(8)) {
    case 0:
      return random.Between(0, most_bytes);
    case 1:
      return std::min<std::size_t>(most_bytes, random.Below(600));
    case 2:
      return most_bytes;
    default:
      return std::min<std::size_t>(most_bytes,
                                   random.Below(std::size_t{1} << random.Between(8, 20)));
  }
}

}  // namespace kerf::cuda
