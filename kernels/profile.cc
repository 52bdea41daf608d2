#include "kernels/profile.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/profile_rules.h"

namespace kerf {
namespace {

constexpr std::array<NamedProfile, 22> kNamedProfiles = {{
    {"fastcdc2020-4k", "fastcdc2020:min=1024,avg=4096,max=16384,level=1"},
    {"fastcdc2020-8k", "fastcdc2020:min=2048,avg=8192,max=32768,level=1"},
    {"fastcdc2020-16k", "fastcdc2020:min=4096,avg=16384,max=65536,level=1"},
    {"fastcdc2020-32k", "fastcdc2020:min=8192,avg=32768,max=131072,level=1"},
    {"fastcdc2020-64k", "fastcdc2020:min=16384,avg=65536,max=262144,level=1"},
    {"fastcdc-8k", "fastcdc:min=2048,avg=8192,max=32768,level=2"},
    {"fastcdc-16k", "fastcdc:min=4096,avg=16384,max=65536,level=2"},
    {"fastcdc-64k", "fastcdc:min=16384,avg=65536,max=262144,level=2"},
    {"fixed-8k", "fixed:size=8192"},
    {"rabin-8k", "rabin:min=2048,avg=8192,max=32768"},
    {"crc-8k", "crc:min=1024,bits=13,max=32768"},
    {"tttd-8k", "tttd:min=2048,avg=8192,max=32768"},
    {"ae-max-8k", "ae-max:window=8192,max=32768"},
    {"ae-min-8k", "ae-min:window=8192,max=32768"},
    {"maxp-8k", "maxp:window=1024,max=32768"},
    {"maxp-local-8k", "maxp-local:window=448,max=32768"},
    {"ram-8k", "ram:window=8192,max=32768"},
    {"seqcdc-8k", "seqcdc:mode=increasing,length=5,trigger=50,skip=256,min=4096,max=16384"},
    {"seqcdc-16k", "seqcdc:mode=increasing,length=5,trigger=50,skip=512,min=8192,max=32768"},
    {"mincdc-8k", "mincdc:min=4096,max=12288"},
    {"gear-8k", "gear:min=4096,avg=4096,max=32768"},
    {"maxcdc-8k", "maxcdc:min=4096,max=12288"},
}};

enum class Key : std::uint8_t {
  kSize,
  kMin,
  kAvg,
  kMax,
  kLevel,
  kWindow,
  kBits,
  kMode,
  kLength,
  kTrigger,
  kSkip
};

constexpr std::array<std::string_view, 11> kKeyNames = {
    "size", "min", "avg", "max", "level", "window", "bits", "mode", "length", "trigger", "skip"};
constexpr std::array<std::string_view, 2> kModeNames = {"increasing", "decreasing"};

constexpr std::size_t kMaxKeys = 6;

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
  // In canonical order.
  std::array<Key, kMaxKeys> key_array;
  std::size_t key_count;

  std::span<const Key> keys() const { return std::span(key_array).first(key_count); }
};

constexpr std::array<AlgorithmRow, 15> kAlgorithms = {{
    {Algorithm::kFixed, "fixed", {Key::kSize}, 1},
    {Algorithm::kRabin, "rabin", {Key::kMin, Key::kAvg, Key::kMax}, 3},
    {Algorithm::kCrc, "crc", {Key::kMin, Key::kBits, Key::kMax}, 3},
    {Algorithm::kTttd, "tttd", {Key::kMin, Key::kAvg, Key::kMax}, 3},
    {Algorithm::kFastCdc, "fastcdc", {Key::kMin, Key::kAvg, Key::kMax, Key::kLevel}, 4},
    {Algorithm::kFastCdc2020, "fastcdc2020", {Key::kMin, Key::kAvg, Key::kMax, Key::kLevel}, 4},
    {Algorithm::kAeMax, "ae-max", {Key::kWindow, Key::kMax}, 2},
    {Algorithm::kAeMin, "ae-min", {Key::kWindow, Key::kMax}, 2},
    {Algorithm::kMaxp, "maxp", {Key::kWindow, Key::kMax}, 2},
    {Algorithm::kMaxpLocal, "maxp-local", {Key::kWindow, Key::kMax}, 2},
    {Algorithm::kRam, "ram", {Key::kWindow, Key::kMax}, 2},
    {Algorithm::kSeqCdc,
     "seqcdc",
     {Key::kMode, Key::kLength, Key::kTrigger, Key::kSkip, Key::kMin, Key::kMax},
     6},
    {Algorithm::kMinCdc, "mincdc", {Key::kMin, Key::kMax}, 2},
    {Algorithm::kGear, "gear", {Key::kMin, Key::kAvg, Key::kMax}, 3},
    {Algorithm::kMaxCdc, "maxcdc", {Key::kMin, Key::kMax}, 2},
}};

// Longer than every valid text; what a peer sends is not carried further than this.
constexpr std::size_t kMaxTextBytes = 128;

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

std::string KeyList(const AlgorithmRow& row) {
  std::string list;
  for (const Key key : row.keys()) {
    list += Cat(list.empty() ? "" : ", ", kKeyNames[static_cast<std::size_t>(key)]);
  }
  return list;
}

const AlgorithmRow& RowOf(Algorithm algorithm) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                [&](const AlgorithmRow& it) { return it.algorithm == algorithm; });
  KERF_CHECK(row != kAlgorithms.end());
  return *row;
}

// Where the value of a key lies; kMode is no number.
std::uint32_t& FieldOf(Profile& profile, Key key) {
  switch (key) {
    case Key::kMin:
      return profile.min_bytes;
    case Key::kAvg:
      return profile.avg_bytes;
    case Key::kSize:
    case Key::kMax:
      return profile.max_bytes;
    case Key::kLevel:
      return profile.level;
    case Key::kWindow:
      return profile.window_bytes;
    case Key::kBits:
      return profile.mask_bits;
    case Key::kLength:
      return profile.sequence_length;
    case Key::kTrigger:
      return profile.skip_trigger;
    case Key::kSkip:
      return profile.skip_bytes;
    case Key::kMode:
      break;
  }
  KERF_CHECK(false && "a key without a number");
  return profile.min_bytes;
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

// The value of one key into `profile`.
absl::Status ParseValue(std::string_view text, Key key, std::string_view value, Profile& profile) {
  const std::string_view name = kKeyNames[static_cast<std::size_t>(key)];
  if (key == Key::kMode) {
    const auto mode = std::find(kModeNames.begin(), kModeNames.end(), value);
    if (mode == kModeNames.end()) {
      return Refuse(text, Cat("key 'mode': '", absl::CHexEscape(ToAbsl(value)), "' is none of ",
                              Join(kModeNames)));
    }
    profile.mode = static_cast<SequenceMode>(mode - kModeNames.begin());
    return absl::OkStatus();
  }
  const std::optional<std::uint32_t> number = ParseNumber(value);
  if (!number.has_value()) {
    return Refuse(text, Cat("key '", name, "': '", absl::CHexEscape(ToAbsl(value)),
                            "' is not a decimal number of at most 9 digits"));
  }
  FieldOf(profile, key) = *number;
  return absl::OkStatus();
}

// One "key=value" into `profile`; `seen` has a place for each key of the row.
absl::Status ParsePair(std::string_view text, const AlgorithmRow& row, std::string_view pair,
                       std::array<bool, kMaxKeys>& seen, Profile& profile) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) {
    return Refuse(text, Cat("'", absl::CHexEscape(ToAbsl(pair)), "' is not key=value"));
  }
  const std::string_view name = pair.substr(0, equals);
  for (std::size_t index = 0; index < row.key_count; ++index) {
    if (kKeyNames[static_cast<std::size_t>(row.key_array[index])] != name) continue;
    if (seen[index]) return Refuse(text, Cat("key '", name, "' is given twice"));
    seen[index] = true;
    return ParseValue(text, row.key_array[index], pair.substr(equals + 1), profile);
  }
  return Refuse(text, Cat("unknown key '", absl::CHexEscape(ToAbsl(name)), "'; the keys of ",
                          row.name, " are ", KeyList(row)));
}

absl::Status ParsePairs(std::string_view text, const AlgorithmRow& row, std::string_view pairs,
                        Profile& profile) {
  std::array<bool, kMaxKeys> seen{};
  while (true) {
    const std::size_t comma = pairs.find(',');
    KERF_RETURN_IF_ERROR(ParsePair(text, row, pairs.substr(0, comma), seen, profile));
    if (comma == std::string_view::npos) break;
    pairs.remove_prefix(comma + 1);
  }
  for (std::size_t index = 0; index < row.key_count; ++index) {
    if (!seen[index]) {
      return Refuse(text, Cat("key '", kKeyNames[static_cast<std::size_t>(row.key_array[index])],
                              "' is missing; the keys of ", row.name, " are ", KeyList(row)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const NamedProfile> NamedProfiles() { return kNamedProfiles; }

std::span<const std::string_view> AlgorithmNames() {
  static const auto names = [] {
    std::array<std::string_view, kAlgorithms.size()> made;
    for (std::size_t index = 0; index < made.size(); ++index) made[index] = kAlgorithms[index].name;
    return made;
  }();
  return names;
}

absl::StatusOr<Profile> ParseProfile(std::string_view text) {
  for (const NamedProfile& named : kNamedProfiles) {
    if (named.name == text) return ParseProfile(named.parameters);
  }
  if (text.size() > kMaxTextBytes) {
    return Refuse(text, Cat("longer than ", kMaxTextBytes, " bytes"));
  }
  if (text.find("+ff") != std::string_view::npos) {
    return Refuse(text,
                  "with a criterion cuts depend on what was stored before: only an upload to "
                  "a server can be cut so; leave out the '+' and what stands behind it");
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    std::array<std::string_view, kNamedProfiles.size()> names;
    for (std::size_t index = 0; index < names.size(); ++index) {
      names[index] = kNamedProfiles[index].name;
    }
    return Refuse(text, Cat("no such name; the named profiles are ", Join(names),
                            "; or write algorithm:key=value,..."));
  }
  const auto row =
      std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                   [&](const AlgorithmRow& it) { return it.name == text.substr(0, colon); });
  if (row == kAlgorithms.end()) {
    return Refuse(text, Cat("unknown algorithm; there are ", Join(AlgorithmNames())));
  }
  Profile profile;
  profile.algorithm = row->algorithm;
  KERF_RETURN_IF_ERROR(ParsePairs(text, *row, text.substr(colon + 1), profile));
  if (const std::string why = WhyProfileIsInvalid(profile, row->name); !why.empty()) {
    return Refuse(text, why);
  }
  // What has no min of its own cannot cut before its window, or its size, is full.
  if (profile.window_bytes != 0) profile.min_bytes = profile.window_bytes;
  if (profile.algorithm == Algorithm::kFixed) profile.min_bytes = profile.max_bytes;
  return profile;
}

std::string FormatProfile(const Profile& profile) {
  const AlgorithmRow& row = RowOf(profile.algorithm);
  std::string text(row.name);
  char separator = ':';
  Profile copy = profile;
  for (const Key key : row.keys()) {
    text += separator;
    text += Cat(kKeyNames[static_cast<std::size_t>(key)], "=");
    text += key == Key::kMode ? std::string(kModeNames[static_cast<std::size_t>(profile.mode)])
                              : Cat(FieldOf(copy, key));
    separator = ',';
  }
  return text;
}

}  // namespace kerf
