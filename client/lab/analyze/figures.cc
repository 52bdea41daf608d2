#include "client/lab/analyze/figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kerf::agent::analyze {
namespace {

// How far a line goes on beyond its points.
constexpr double kBeyond = 7.0 / 6;

// What is that near is compared as it is, where there is no line.
constexpr double kNear = 1.1;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::optional<double> SavingsAt(std::vector<SavingsPoint> points, double average_bytes) {
  std::sort(points.begin(), points.end(), [](const SavingsPoint& left, const SavingsPoint& right) {
    return left.average_bytes < right.average_bytes;
  });
  // Two at the same place have no line through them.
  const auto last = std::unique(points.begin(), points.end(),
                                [](const SavingsPoint& left, const SavingsPoint& right) {
                                  return left.average_bytes == right.average_bytes;
                                });
  points.erase(last, points.end());
  if (points.empty()) return std::nullopt;
  if (points.size() == 1) {
    if (points[0].average_bytes == average_bytes) return points[0].savings;
    return std::nullopt;
  }
  if (average_bytes < points.front().average_bytes / kBeyond ||
      average_bytes > points.back().average_bytes * kBeyond) {
    return std::nullopt;
  }
  std::size_t right = 1;
  while (right + 1 < points.size() && points[right].average_bytes < average_bytes) ++right;
  const SavingsPoint& low = points[right - 1];
  const SavingsPoint& high = points[right];
  const double along = std::log(average_bytes / low.average_bytes) /
                       std::log(high.average_bytes / low.average_bytes);
  return low.savings + along * (high.savings - low.savings);
}

void CompareAtEqualAverage(std::span<ProfileFigures> all) {
  std::map<std::uint64_t, std::vector<double>> averages;
  std::map<std::string, std::vector<SavingsPoint>> lines;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes == 0) continue;
    averages[figures.wanted_bytes].push_back(figures.count.average_bytes());
    lines[figures.algorithm].push_back({figures.count.average_bytes(), figures.count.savings()});
  }
  for (ProfileFigures& figures : all) {
    if (figures.wanted_bytes == 0) {
      figures.compared_at_bytes = figures.count.average_bytes();
      figures.savings_at_equal_average = figures.count.savings();
      continue;
    }
    figures.compared_at_bytes = MedianOf(averages[figures.wanted_bytes]);
    figures.savings_at_equal_average =
        SavingsAt(lines[figures.algorithm], figures.compared_at_bytes);
    const double ratio = figures.count.average_bytes() / figures.compared_at_bytes;
    if (!figures.savings_at_equal_average.has_value() && ratio < kNear && ratio > 1 / kNear) {
      figures.savings_at_equal_average = figures.count.savings();
    }
  }
}

}  // namespace kerf::agent::analyze
