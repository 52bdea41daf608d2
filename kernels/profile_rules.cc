#include "kernels/profile_rules.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::string_view kWhyMin =
    "at least the hash window, so that cutting can start again at every cut; ";
constexpr std::string_view kWhyMax = "; at most 4 MiB";

// What holds for every avg and level in range.
static_assert(std::countr_zero(kMinAvgBytes) - kMaxLevel >= kFastCdcMinMaskBits);
static_assert(std::countr_zero(kMaxAvgBytes) + kMaxLevel <= kFastCdcMaxMaskBits);
static_assert(std::countr_zero(kMaxAvgBytes) + kMaxLevel <= kFastCdc2020MaxMaskBits);

std::string CheckRange(std::string_view key, std::uint32_t value, std::uint32_t low,
                       std::uint32_t high, std::string_view why) {
  if (low <= value && value <= high) return "";
  return Cat(key, "=", value, " is out of range ", low, "..", high, " (", why, ")");
}

// The first complaint.
template <typename... Checks>
std::string First(const Checks&... checks) {
  std::string why;
  ((why.empty() ? void(why = checks()) : void()), ...);
  return why;
}

std::string CheckMax(const Profile& profile, std::uint32_t low, std::string_view why) {
  return CheckRange("max", profile.max_bytes, low, kMaxMaxBytes, Cat(why, kWhyMax));
}

// min <= avg <= max, avg a power of two.
std::string CheckMinAvgMax(const Profile& profile, std::string_view why_avg) {
  return First(
      [&] { return CheckRange("avg", profile.avg_bytes, kMinAvgBytes, kMaxAvgBytes, why_avg); },
      [&]() -> std::string {
        if (std::has_single_bit(profile.avg_bytes)) return "";
        const std::uint32_t below = std::bit_floor(profile.avg_bytes);
        return Cat("avg=", profile.avg_bytes, " is not a power of two; the nearest are ", below,
                   " and ", below * 2);
      },
      [&] {
        return CheckRange("min", profile.min_bytes, kHashWindowBytes, profile.avg_bytes,
                          Cat(kWhyMin, "at most avg"));
      },
      [&] { return CheckMax(profile, profile.avg_bytes, "at least avg"); });
}

std::string CheckFastCdc(const Profile& profile) {
  return First(
      [&] { return CheckMinAvgMax(profile, "a power of two; the masks are made for these"); },
      [&] {
        return CheckRange("level", profile.level, 0, kMaxLevel,
                          "bits that the masks are stricter before avg and looser after");
      });
}

std::string CheckFastCdc2020(const Profile& profile) {
  if (std::string why = CheckFastCdc(profile); !why.empty()) return why;
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  if (bits - profile.level < kFastCdc2020MinMaskBits) {
    return Cat("level=", profile.level, " is out of range for avg=", profile.avg_bytes,
               ": fastcdc2020 has masks of ", kFastCdc2020MinMaskBits, "..",
               kFastCdc2020MaxMaskBits, " bits, so log2(avg) - level must be at least ",
               kFastCdc2020MinMaskBits, " and here it is ", bits - profile.level);
  }
  // It steps by two bytes.
  for (const auto& [key, value] :
       {std::pair{"min", profile.min_bytes}, std::pair{"max", profile.max_bytes}}) {
    if (value % 2 != 0) return Cat(key, "=", value, " is odd; fastcdc2020 needs even sizes");
  }
  return "";
}

std::string CheckCrc(const Profile& profile) {
  return First(
      [&] {
        return CheckRange("bits", profile.mask_bits, kMinCrcBits, kMaxCrcBits,
                          "low bits of the CRC that must be zero");
      },
      [&] {
        return CheckRange("min", profile.min_bytes, kCrcWindowBytes, kMaxMaxBytes,
                          Cat(kWhyMin, "at most 4 MiB"));
      },
      [&] { return CheckMax(profile, profile.min_bytes, "at least min"); });
}

// An extremum that has `windows` windows in the chunk.
std::string CheckWindow(const Profile& profile, std::uint32_t windows) {
  return First(
      [&] {
        return CheckRange("window", profile.window_bytes, kHashWindowBytes, kMaxWindowBytes,
                          "no chunk is shorter than the window");
      },
      [&] {
        return CheckMax(profile, windows * profile.window_bytes + 1,
                        windows == 1 ? "more than the window" : "more than twice the window");
      });
}

std::string CheckSeqCdc(const Profile& profile) {
  return First(
      [&] {
        return CheckRange("length", profile.sequence_length, 1, kMaxSequenceLength,
                          "rising or falling steps that make a cut");
      },
      [&] {
        return CheckRange("trigger", profile.skip_trigger, 1, kMaxSkipTrigger,
                          "opposite steps that make a skip");
      },
      [&] {
        return CheckRange("skip", profile.skip_bytes, 0, kMaxWindowBytes, "bytes that are skipped");
      },
      [&] {
        return CheckRange("min", profile.min_bytes, kHashWindowBytes, kMaxMaxBytes,
                          "no chunk is shorter; at most 4 MiB");
      },
      [&] { return CheckMax(profile, profile.min_bytes, "at least min"); });
}

std::string CheckGear(const Profile& profile) {
  if (std::string why = CheckMinAvgMax(profile, "a power of two; gear masks high bits");
      !why.empty()) {
    return why;
  }
  return CheckRange("avg", profile.avg_bytes, kMinAvgBytes, kMaxGearAvgBytes,
                    "a power of two; gear's hash has 16 bits");
}

// The place of an extremum of hashes.
std::string CheckMinMax(const Profile& profile) {
  return First(
      [&] {
        return CheckRange("min", profile.min_bytes, kHashWindowBytes, kMaxMaxBytes,
                          "no chunk is shorter; at most 4 MiB");
      },
      [&] { return CheckMax(profile, profile.min_bytes, "at least min"); });
}

}  // namespace

std::string WhyProfileIsInvalid(const Profile& profile, std::string_view name) {
  switch (profile.algorithm) {
    case Algorithm::kFixed:
      return CheckRange("size", profile.max_bytes, kHashWindowBytes, kMaxMaxBytes,
                        "the size of every chunk but the last; at most 4 MiB");
    case Algorithm::kRabin:
    case Algorithm::kTttd:
      return CheckMinAvgMax(profile, Cat("a power of two; ", name, " masks low bits"));
    case Algorithm::kCrc:
      return CheckCrc(profile);
    case Algorithm::kFastCdc:
      return CheckFastCdc(profile);
    case Algorithm::kFastCdc2020:
      return CheckFastCdc2020(profile);
    case Algorithm::kAeMax:
    case Algorithm::kAeMin:
    case Algorithm::kRam:
      return CheckWindow(profile, 1);
    case Algorithm::kMaxp:
    case Algorithm::kMaxpLocal:
      return CheckWindow(profile, 2);
    case Algorithm::kSeqCdc:
      return CheckSeqCdc(profile);
    case Algorithm::kMinCdc:
    case Algorithm::kMaxCdc:
      return CheckMinMax(profile);
    case Algorithm::kGear:
      return CheckGear(profile);
  }
  KERF_CHECK(false && "an algorithm without rules");
  return "";
}

}  // namespace kerf
