// A scale of a plot: where values lie, and which of them are written down.
#pragma once

#include <string>
#include <vector>

namespace kerf::agent::analyze {

// From `low` to `high`, linear or logarithmic. A plain value.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;
  // Of the canvas: where low and high lie.
  double low_place = 0;
  double high_place = 1;

  double Place(double value) const;
};

// At most about `most` round numbers (1, 2 or 5 times a power of ten apart) within the axis.
std::vector<double> LinearTicks(const Axis& axis, int most);
// The powers of two within the axis, or every second, third, ... of them; where there are less than
// four, also what is one and a half times a power of two.
std::vector<double> PowerOfTwoTicks(const Axis& axis, int most);
// 1, 2 and 5 times the powers of ten within the axis.
std::vector<double> DecimalLogTicks(const Axis& axis);

}  // namespace kerf::agent::analyze
