#include "client/cli/duration.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

struct Unit {
  std::string_view name;
  double ms;
};

constexpr double kHourMs = 3'600'000;
constexpr double kDayMs = 24 * kHourMs;
constexpr std::array<Unit, 5> kUnits = {
    {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", kHourMs}, {"d", kDayMs}}};
constexpr double kMaxMs = 365 * kDayMs;

}  // namespace

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      Cat("'", text, "' is not a time: write a number and ms, s, m, h or d, as 90s or 5m"));
  const std::size_t number_end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(number_end);
  double value = 0;
  if (number_end == 0 || !absl::SimpleAtod(ToAbsl(text.substr(0, number_end)), &value)) {
    return malformed;
  }
  double unit_ms = 0;
  for (const auto& [name, ms] : kUnits) {
    if (unit == name) unit_ms = ms;
  }
  if (unit_ms == 0 && (!unit.empty() || value != 0)) return malformed;
  const double ms = value * unit_ms;
  if (ms > kMaxMs) return malformed;
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

}  // namespace kerf::agent
