#include "client/lab/analyze/figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kerf::agent::analyze {
namespace {

// How far beyond the average a missing point is aimed at: ladders have steps, and averages vary.
constexpr double kBeyond = 1.05;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

using Lines = std::map<std::string, std::vector<SavingsPoint>>;

Lines LinesOf(std::span<const ProfileFigures> all, std::span<const LinePoint> more) {
  Lines lines;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes == 0) continue;
    lines[figures.algorithm].push_back({figures.count.average_bytes(), figures.count.savings()});
  }
  for (const LinePoint& point : more) lines[point.algorithm].push_back(point.point);
  return lines;
}

bool LiesAt(const SavingsPoint& point, double average_bytes) {
  return std::abs(std::log(point.average_bytes / average_bytes)) < kSameAverage;
}

}  // namespace

std::optional<double> SavingsAt(const std::vector<SavingsPoint>& points, double average_bytes) {
  const auto distance = [average_bytes](const SavingsPoint& point) {
    return std::abs(std::log(point.average_bytes / average_bytes));
  };
  const SavingsPoint* below = nullptr;
  const SavingsPoint* above = nullptr;
  for (const SavingsPoint& point : points) {
    const SavingsPoint*& side = point.average_bytes <= average_bytes ? below : above;
    if (side == nullptr || distance(point) < distance(*side)) side = &point;
  }
  const SavingsPoint* const nearest =
      below == nullptr || (above != nullptr && distance(*above) < distance(*below)) ? above : below;
  if (nearest == nullptr) return std::nullopt;
  if (below != nullptr && above != nullptr) {
    const double along = distance(*below) / (distance(*below) + distance(*above));
    return below->savings + along * (above->savings - below->savings);
  }
  if (LiesAt(*nearest, average_bytes)) return nearest->savings;
  return std::nullopt;
}

void CompareAtEqualAverage(std::span<ProfileFigures> all, std::span<const LinePoint> more) {
  std::map<std::uint64_t, std::vector<double>> averages;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes > 0) {
      averages[figures.wanted_bytes].push_back(figures.count.average_bytes());
    }
  }
  Lines lines = LinesOf(all, more);
  for (ProfileFigures& figures : all) {
    figures.equal_is_bound = false;
    if (figures.wanted_bytes == 0) {
      figures.compared_at_bytes = figures.count.average_bytes();
      figures.savings_at_equal_average = figures.count.savings();
      continue;
    }
    figures.compared_at_bytes = MedianOf(averages[figures.wanted_bytes]);
    const std::vector<SavingsPoint>& line = lines[figures.algorithm];
    figures.savings_at_equal_average = SavingsAt(line, figures.compared_at_bytes);
    if (figures.savings_at_equal_average.has_value()) continue;
    const auto smallest = std::min_element(line.begin(), line.end(),
                                           [](const SavingsPoint& left, const SavingsPoint& right) {
                                             return left.average_bytes < right.average_bytes;
                                           });
    if (smallest->average_bytes < figures.compared_at_bytes) continue;
    figures.savings_at_equal_average = smallest->savings;
    figures.equal_is_bound = true;
  }
}

std::vector<LineGap> FindLineGaps(std::span<const ProfileFigures> all,
                                  std::span<const LinePoint> more) {
  // What was aimed at, and what it gave.
  struct Shot {
    double aimed_bytes = 0;
    double average_bytes = 0;
  };
  std::map<std::string, std::vector<Shot>> shots;
  for (const ProfileFigures& figures : all) {
    if (figures.wanted_bytes == 0) continue;
    shots[figures.algorithm].push_back(
        {static_cast<double>(figures.wanted_bytes), figures.count.average_bytes()});
  }
  for (const LinePoint& point : more) {
    shots[point.algorithm].push_back(
        {static_cast<double>(point.aimed_bytes), point.point.average_bytes});
  }
  Lines lines = LinesOf(all, more);
  std::vector<LineGap> gaps;
  for (const ProfileFigures& figures : all) {
    const double at = figures.compared_at_bytes;
    if (figures.wanted_bytes == 0 || SavingsAt(lines[figures.algorithm], at).has_value()) continue;
    const std::vector<Shot>& line = shots[figures.algorithm];
    const Shot nearest =
        *std::min_element(line.begin(), line.end(), [at](const Shot& left, const Shot& right) {
          return std::abs(std::log(left.average_bytes / at)) <
                 std::abs(std::log(right.average_bytes / at));
        });
    const double beyond = nearest.average_bytes < at ? kBeyond : 1 / kBeyond;
    gaps.push_back({figures.algorithm,
                    static_cast<std::uint64_t>(
                        std::lround(nearest.aimed_bytes * at / nearest.average_bytes * beyond))});
  }
  return gaps;
}

}  // namespace kerf::agent::analyze
