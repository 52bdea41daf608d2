#include "client/lab/analyze/ladder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent::analyze {
namespace {

constexpr std::string_view kFalling = "seqcdc-falling";

constexpr std::array<std::string_view, 16> kVariants = {
    "fixed", "rabin",      "crc", "tttd",   "fastcdc", "fastcdc2020", "ae-max", "ae-min",
    "maxp",  "maxp-local", "ram", "seqcdc", kFalling,  "mincdc",      "gear",   "maxcdc"};

Profile MustParse(const std::string& text) {
  absl::StatusOr<Profile> profile = ParseProfile(text);
  KERF_CHECK(profile.ok());
  return *std::move(profile);
}

// Rungs from `low` to `high` in steps; `text` makes a profile's text of a value.
Ladder Steps(std::uint64_t low, std::uint64_t high, std::uint64_t step,
             std::function<std::string(std::uint64_t)> text) {
  // The first one is a multiple as well.
  low = (low + step - 1) / step * step;
  Ladder ladder;
  ladder.rung_count = high < low ? 1 : static_cast<std::uint32_t>((high - low) / step + 1);
  ladder.at = [low, step, text = std::move(text)](std::uint32_t rung) {
    return MustParse(text(low + rung * step));
  };
  return ladder;
}

// Those whose `avg` is a power of two: half of the wanted average, then the whole.
std::vector<Ladder> PowerOfTwoLadders(std::string_view name, std::string_view rest,
                                      std::uint64_t least_avg, std::uint64_t most_avg,
                                      std::uint64_t wanted, std::uint64_t step) {
  std::vector<Ladder> ladders;
  for (const std::uint64_t divisor : {2, 1}) {
    const std::uint64_t avg = std::clamp(std::bit_floor(wanted) / divisor, least_avg, most_avg);
    ladders.push_back(
        Steps(kHashWindowBytes, avg, step,
              [=, name = std::string(name), rest = std::string(rest)](std::uint64_t min) {
                return Cat(name, ":min=", min, ",avg=", avg, ",max=", 4 * wanted, rest);
              }));
  }
  return ladders;
}

Ladder WindowLadder(std::string_view name, std::uint64_t high, std::uint64_t step,
                    std::uint64_t wanted) {
  high = std::min<std::uint64_t>(high, kMaxWindowBytes);
  return Steps(kHashWindowBytes, high, step, [=, name = std::string(name)](std::uint64_t window) {
    return Cat(name, ":window=", window, ",max=", 4 * wanted);
  });
}

Ladder SequenceLadder(std::string_view mode, std::uint64_t wanted, std::uint64_t step) {
  return Steps(kHashWindowBytes, 2 * wanted, step,
               [=, mode = std::string(mode)](std::uint64_t min) {
                 return Cat("seqcdc:mode=", mode, ",length=5,trigger=50,skip=", wanted / 32,
                            ",min=", min, ",max=", 2 * wanted);
               });
}

}  // namespace

std::span<const std::string_view> VariantNames() { return kVariants; }

absl::StatusOr<std::vector<std::string>> VariantsOf(const std::string& algorithm) {
  std::vector<std::string> names;
  std::string known;
  for (const std::string_view variant : kVariants) {
    if (variant == algorithm || (variant == kFalling && algorithm == "seqcdc")) {
      names.emplace_back(variant);
    }
    known += Cat(known.empty() ? "" : ", ", variant);
  }
  if (!names.empty()) return names;
  return absl::InvalidArgumentError(
      Cat("there is no algorithm '", algorithm, "'; there are ", known));
}

std::vector<Ladder> LaddersFor(std::string_view variant, std::uint64_t wanted_bytes) {
  KERF_CHECK(wanted_bytes >= kMinWantedBytes && wanted_bytes <= kMaxWantedBytes);
  const std::uint64_t wanted = wanted_bytes / 8 * 8;
  // Even, as fastcdc2020 needs it.
  const std::uint64_t step = std::max<std::uint64_t>(2, wanted / 128 / 2 * 2);
  // Chunks are many times as long as these windows.
  const std::uint64_t fine_step = std::max<std::uint64_t>(1, wanted / 1024);
  if (variant == "fixed") {
    return {Steps(wanted, wanted, 1, [](std::uint64_t size) { return Cat("fixed:size=", size); })};
  }
  if (variant == "rabin" || variant == "tttd") {
    return PowerOfTwoLadders(variant, "", kMinAvgBytes, kMaxAvgBytes, wanted, step);
  }
  if (variant == "gear") {
    return PowerOfTwoLadders(variant, "", kMinAvgBytes, kMaxGearAvgBytes, wanted, step);
  }
  if (variant == "fastcdc") {
    return PowerOfTwoLadders(variant, ",level=2", kMinAvgBytes, kMaxAvgBytes, wanted, step);
  }
  if (variant == "fastcdc2020") {
    // Level 1 takes a bit from the mask.
    constexpr std::uint64_t kLeastAvg = std::uint64_t{2} << kFastCdc2020MinMaskBits;
    return PowerOfTwoLadders(variant, ",level=1", kLeastAvg, kMaxAvgBytes,
                             std::max(wanted, kLeastAvg), step);
  }
  if (variant == "crc") {
    const int bits = std::countr_zero(std::bit_floor(wanted)) - 1;
    return {Steps(kCrcWindowBytes, 2 * wanted, step, [=](std::uint64_t min) {
      return Cat("crc:min=", min, ",bits=", bits, ",max=", 4 * wanted);
    })};
  }
  if (variant == "ae-max" || variant == "ae-min" || variant == "ram") {
    return {WindowLadder(variant, 2 * wanted, step, wanted)};
  }
  if (variant == "maxp" || variant == "maxp-local") {
    return {WindowLadder(variant, wanted, fine_step, wanted)};
  }
  if (variant == "seqcdc") return {SequenceLadder("increasing", wanted, step)};
  if (variant == kFalling) return {SequenceLadder("decreasing", wanted, step)};
  KERF_CHECK(variant == "mincdc" || variant == "maxcdc");
  return {Steps(kHashWindowBytes, wanted, step, [name = std::string(variant)](std::uint64_t min) {
    return Cat(name, ":min=", min, ",max=", 3 * min);
  })};
}

}  // namespace kerf::agent::analyze
