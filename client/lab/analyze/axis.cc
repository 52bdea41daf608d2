#include "client/lab/analyze/axis.h"

#include <algorithm>
#include <cmath>

namespace kerf::agent::analyze {

double Axis::Place(double value) const {
  const double along =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return low_place + along * (high_place - low_place);
}

std::vector<double> LinearTicks(const Axis& axis, int most) {
  const double rough = (axis.high - axis.low) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1}) {
    if (factor * power >= rough) step = factor * power;
  }
  // A tick that lies at an end up to rounding is within.
  const auto first = static_cast<int>(std::ceil(axis.low / step - 1e-9));
  const auto last = static_cast<int>(std::floor(axis.high / step + 1e-9));
  std::vector<double> ticks;
  for (int count = first; count <= last; ++count) ticks.push_back(count * step);
  return ticks;
}

std::vector<double> PowerOfTwoTicks(const Axis& axis, int most) {
  const int first = static_cast<int>(std::ceil(std::log2(axis.low)));
  const int last = static_cast<int>(std::floor(std::log2(axis.high)));
  const int step = std::max(1, (last - first + most) / most);
  std::vector<double> ticks;
  const bool between = last - first < 3;
  for (int power = between ? first - 1 : first; power <= last; power += step) {
    if (power >= first) ticks.push_back(std::exp2(power));
    const double half_way = 1.5 * std::exp2(power);
    if (between && half_way >= axis.low && half_way <= axis.high) ticks.push_back(half_way);
  }
  return ticks;
}

std::vector<double> DecimalLogTicks(const Axis& axis) {
  std::vector<double> ticks;
  const auto first = static_cast<int>(std::floor(std::log10(axis.low)));
  const auto last = static_cast<int>(std::floor(std::log10(axis.high)));
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1, 2, 5}) {
      const double tick = factor * std::pow(10, power);
      if (tick >= axis.low && tick <= axis.high) ticks.push_back(tick);
    }
  }
  return ticks;
}

}  // namespace kerf::agent::analyze
