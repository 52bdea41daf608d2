#include "base/units.h"

#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace kerf {
namespace {

struct Unit {
  char letter;
  std::uint64_t bytes;
};

constexpr std::uint64_t kPiB = 1024 * kTiB;
constexpr std::uint64_t kEiB = 1024 * kPiB;

constexpr std::array<Unit, 6> kUnits = {
    {{'k', kKiB}, {'m', kMiB}, {'g', kGiB}, {'t', kTiB}, {'p', kPiB}, {'e', kEiB}}};

}  // namespace

absl::StatusOr<std::uint64_t> ParseByteSize(std::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      Cat("'", text, "' is not a byte size: write a number and K, M, G, T, P or E, as 64M"));
  std::string number = absl::AsciiStrToLower(absl::StripAsciiWhitespace(ToAbsl(text)));
  std::uint64_t factor = 1;
  if (absl::EndsWith(number, "ib")) {
    number.resize(number.size() - 2);
    if (number.empty() || absl::ascii_isdigit(static_cast<unsigned char>(number.back()))) {
      return malformed;
    }
  } else if (absl::EndsWith(number, "b")) {
    number.pop_back();
  }
  for (const Unit& unit : kUnits) {
    if (!number.empty() && number.back() == unit.letter) {
      factor = unit.bytes;
      number.pop_back();
      break;
    }
  }
  absl::StripAsciiWhitespace(&number);
  std::uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > UINT64_MAX / factor) return malformed;
    return whole * factor;
  }
  double value = 0;
  // The first test keeps "inf", "nan" and "1e9" out.
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string::npos ||
      !absl::SimpleAtod(number, &value)) {
    return malformed;
  }
  const double bytes = value * static_cast<double>(factor);
  if (bytes >= std::ldexp(1.0, 63)) return malformed;
  return static_cast<std::uint64_t>(bytes);
}

std::string FormatByteSize(std::uint64_t bytes) {
  if (bytes < kKiB) return Cat(bytes, " B");
  const Unit* best = kUnits.data();
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes) best = &unit;
  }
  return absl::StrFormat("%.1f %ciB", static_cast<double>(bytes) / static_cast<double>(best->bytes),
                         absl::ascii_toupper(static_cast<unsigned char>(best->letter)));
}

}  // namespace kerf
