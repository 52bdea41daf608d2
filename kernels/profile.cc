#include "kernels/profile.h"

#include <array>
#include <bit>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::array<std::string_view, 2> kAlgorithmNames = {"fastcdc", "fastcdc2020"};
constexpr std::array<Algorithm, 2> kAlgorithms = {Algorithm::kFastCdc, Algorithm::kFastCdc2020};

constexpr std::array<NamedProfile, 8> kNamedProfiles = {{
    {"fastcdc2020-4k", "fastcdc2020:min=1024,avg=4096,max=16384,level=1"},
    {"fastcdc2020-8k", "fastcdc2020:min=2048,avg=8192,max=32768,level=1"},
    {"fastcdc2020-16k", "fastcdc2020:min=4096,avg=16384,max=65536,level=1"},
    {"fastcdc2020-32k", "fastcdc2020:min=8192,avg=32768,max=131072,level=1"},
    {"fastcdc2020-64k", "fastcdc2020:min=16384,avg=65536,max=262144,level=1"},
    {"fastcdc-8k", "fastcdc:min=2048,avg=8192,max=32768,level=2"},
    {"fastcdc-16k", "fastcdc:min=4096,avg=16384,max=65536,level=2"},
    {"fastcdc-64k", "fastcdc:min=16384,avg=65536,max=262144,level=2"},
}};

// Longer than every valid text; what a peer sends is not carried further than this.
constexpr std::size_t kMaxTextBytes = 128;

// In canonical order.
constexpr std::array<std::string_view, 4> kKeys = {"min", "avg", "max", "level"};
constexpr std::string_view kKeyList = "min, avg, max, level";

using Values = std::array<std::optional<std::uint32_t>, kKeys.size()>;

absl::Status Refuse(std::string_view text, std::string_view why) {
  const std::string_view shown = text.substr(0, kMaxTextBytes);
  return absl::InvalidArgumentError(Cat("profile '", absl::CHexEscape(ToAbsl(shown)),
                                        shown.size() < text.size() ? "..." : "", "': ", why));
}

template <typename Names>
std::string Join(const Names& names) {
  std::string joined;
  for (const std::string_view name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

std::optional<Algorithm> FindAlgorithm(std::string_view name) {
  for (std::size_t index = 0; index < kAlgorithmNames.size(); ++index) {
    if (kAlgorithmNames[index] == name) return kAlgorithms[index];
  }
  return std::nullopt;
}

std::string_view NameOf(Algorithm algorithm) {
  return kAlgorithmNames[algorithm == Algorithm::kFastCdc ? 0 : 1];
}

// Digits only. Nothing else a number parser takes (signs, blanks, hexadecimal) is a second way to
// write the same profile.
std::optional<std::uint32_t> ParseNumber(std::string_view digits) {
  constexpr std::size_t kMaxDigits = 9;
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  std::uint32_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint32_t>(digit - '0');
  }
  return value;
}

// One "key=value" into `values`.
absl::Status ParsePair(std::string_view text, std::string_view pair, Values& values) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) {
    return Refuse(text, Cat("'", absl::CHexEscape(ToAbsl(pair)), "' is not key=value"));
  }
  const std::string_view key = pair.substr(0, equals);
  for (std::size_t index = 0; index < kKeys.size(); ++index) {
    if (kKeys[index] != key) continue;
    if (values[index].has_value()) return Refuse(text, Cat("key '", key, "' is given twice"));
    values[index] = ParseNumber(pair.substr(equals + 1));
    if (values[index].has_value()) return absl::OkStatus();
    return Refuse(text, Cat("key '", key, "': '", absl::CHexEscape(ToAbsl(pair.substr(equals + 1))),
                            "' is not a decimal number of at most 9 digits"));
  }
  return Refuse(text,
                Cat("unknown key '", absl::CHexEscape(ToAbsl(key)), "'; the keys are ", kKeyList));
}

absl::StatusOr<Values> ParsePairs(std::string_view text, std::string_view pairs) {
  Values values;
  while (true) {
    const std::size_t comma = pairs.find(',');
    KERF_RETURN_IF_ERROR(ParsePair(text, pairs.substr(0, comma), values));
    if (comma == std::string_view::npos) break;
    pairs.remove_prefix(comma + 1);
  }
  for (std::size_t index = 0; index < kKeys.size(); ++index) {
    if (!values[index].has_value()) {
      return Refuse(text, Cat("key '", kKeys[index], "' is missing; the keys are ", kKeyList));
    }
  }
  return values;
}

absl::Status CheckRange(std::string_view text, std::string_view key, std::uint32_t value,
                        std::uint32_t low, std::uint32_t high, std::string_view why) {
  if (low <= value && value <= high) return absl::OkStatus();
  return Refuse(text, Cat(key, "=", value, " is out of range ", low, "..", high, " (", why, ")"));
}

// What holds for every avg and level in range.
static_assert(std::countr_zero(kMinAvgBytes) - kMaxLevel >= kFastCdcMinMaskBits);
static_assert(std::countr_zero(kMaxAvgBytes) + kMaxLevel <= kFastCdcMaxMaskBits);
static_assert(std::countr_zero(kMaxAvgBytes) + kMaxLevel <= kFastCdc2020MaxMaskBits);

absl::Status Validate(std::string_view text, const Profile& profile) {
  KERF_RETURN_IF_ERROR(CheckRange(text, "avg", profile.avg_bytes, kMinAvgBytes, kMaxAvgBytes,
                                  "a power of two; the masks are made for these"));
  if (!std::has_single_bit(profile.avg_bytes)) {
    const std::uint32_t below = std::bit_floor(profile.avg_bytes);
    return Refuse(text, Cat("avg=", profile.avg_bytes, " is not a power of two; the nearest are ",
                            below, " and ", below * 2));
  }
  KERF_RETURN_IF_ERROR(CheckRange(
      text, "min", profile.min_bytes, kHashWindowBytes, profile.avg_bytes,
      "at least the hash window, so that cutting can start again at every cut; at most avg"));
  KERF_RETURN_IF_ERROR(CheckRange(text, "max", profile.max_bytes, profile.avg_bytes, kMaxMaxBytes,
                                  "at least avg; at most 4 MiB"));
  KERF_RETURN_IF_ERROR(CheckRange(text, "level", profile.level, 0, kMaxLevel,
                                  "bits that the masks are stricter before avg and looser after"));
  const std::uint32_t bits = static_cast<std::uint32_t>(std::countr_zero(profile.avg_bytes));
  if (profile.algorithm == Algorithm::kFastCdc2020) {
    if (bits - profile.level < kFastCdc2020MinMaskBits) {
      return Refuse(text,
                    Cat("level=", profile.level, " is out of range for avg=", profile.avg_bytes,
                        ": fastcdc2020 has masks of ", kFastCdc2020MinMaskBits, "..",
                        kFastCdc2020MaxMaskBits, " bits, so log2(avg) - level must be at least ",
                        kFastCdc2020MinMaskBits, " and here it is ", bits - profile.level));
    }
    // It steps by two bytes.
    for (const auto& [key, value] :
         {std::pair{"min", profile.min_bytes}, std::pair{"max", profile.max_bytes}}) {
      if (value % 2 != 0) {
        return Refuse(text, Cat(key, "=", value, " is odd; fastcdc2020 needs even sizes"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const NamedProfile> NamedProfiles() { return kNamedProfiles; }

std::span<const std::string_view> AlgorithmNames() { return kAlgorithmNames; }

absl::StatusOr<Profile> ParseProfile(std::string_view text) {
  for (const NamedProfile& named : kNamedProfiles) {
    if (named.name == text) return ParseProfile(named.parameters);
  }
  if (text.size() > kMaxTextBytes) {
    return Refuse(text, Cat("longer than ", kMaxTextBytes, " bytes"));
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    std::array<std::string_view, kNamedProfiles.size()> names;
    for (std::size_t index = 0; index < names.size(); ++index) {
      names[index] = kNamedProfiles[index].name;
    }
    return Refuse(text, Cat("no such name; the named profiles are ", Join(names),
                            "; or write algorithm:min=..,avg=..,max=..,level=.."));
  }
  const std::optional<Algorithm> algorithm = FindAlgorithm(text.substr(0, colon));
  if (!algorithm.has_value()) {
    return Refuse(text, Cat("unknown algorithm; there are ", Join(kAlgorithmNames)));
  }
  KERF_ASSIGN_OR_RETURN(const Values values, ParsePairs(text, text.substr(colon + 1)));
  const Profile profile{.algorithm = *algorithm,
                        .min_bytes = *values[0],
                        .avg_bytes = *values[1],
                        .max_bytes = *values[2],
                        .level = *values[3]};
  KERF_RETURN_IF_ERROR(Validate(text, profile));
  return profile;
}

std::string FormatProfile(const Profile& profile) {
  return Cat(NameOf(profile.algorithm), ":min=", profile.min_bytes, ",avg=", profile.avg_bytes,
             ",max=", profile.max_bytes, ",level=", profile.level);
}

}  // namespace kerf
