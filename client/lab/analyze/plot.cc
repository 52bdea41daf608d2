#include "client/lab/analyze/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/cli/progress_display.h"
#include "client/lab/analyze/axis.h"
#include "client/lab/analyze/plot_page.h"
#include "client/lab/analyze/svg_canvas.h"

namespace kerf::agent::analyze {
namespace {

constexpr int kWidth = 1280;
constexpr int kHeight = 720;
constexpr double kTop = 150;
constexpr double kBottom = 560;
constexpr double kLegendTop = 640;
constexpr int kLegendColumns = 8;

constexpr std::string_view kFixed = "fixed";

constexpr Color kInk = {0x22, 0x26, 0x2b};
constexpr Color kFaint = {0x6b, 0x72, 0x7a};
constexpr Color kGrid = {0xe3, 0xe6, 0xe9};
constexpr Color kGoal = {0xb0, 0x30, 0x30};

// Distinct also for those who see fewer colours, together with the marker's shape.
constexpr std::array<Color, 8> kColors = {{{0x1f, 0x77, 0xb4},
                                           {0xd9, 0x5f, 0x0e},
                                           {0x2c, 0x8c, 0x3c},
                                           {0xc2, 0x2f, 0x3a},
                                           {0x7b, 0x52, 0xab},
                                           {0x7a, 0x4b, 0x3a},
                                           {0xd1, 0x5f, 0xa8},
                                           {0x11, 0x9d, 0xa4}}};
constexpr double kMarkerRadius = 4.5;

struct Style {
  Color color;
  // Of its marker.
  int corners = 0;
  double turn = 0;
};

// Of the algorithm of that number.
Style StyleOf(std::size_t number) {
  constexpr int kRound = 24;
  const Color color = kColors[number % kColors.size()];
  switch (number / kColors.size() % 3) {
    case 0:
      return {color, kRound, 0};
    case 1:
      return {color, 4, std::numbers::pi / 4};
    default:
      return {color, 3, -std::numbers::pi / 2};
  }
}

struct Panel {
  Axis x;
  Axis y;

  Point At(double x_value, double y_value) const { return {x.Place(x_value), y.Place(y_value)}; }
};

class Picture {
 public:
  Picture(SvgCanvas& canvas, const Corpus& corpus, const AnalysisOptions& options,
          const Analysis& analysis)
      : canvas_(canvas), corpus_(corpus), options_(options), analysis_(analysis) {}

  void Draw() {
    Heading();
    SavingsOverAverage();
    SavingsOverSpeed();
    Legend();
  }

 private:
  const ProfileFigures& chosen() const { return analysis_.figures[analysis_.recommendation.index]; }

  void Heading() {
    canvas_.Text({40, 46}, Anchor::kStart, 22,
                 Cat("What chunking saves on ", FormatCounted(corpus_.files.size(), "file"), ", ",
                     FormatByteSize(corpus_.size_bytes), corpus_.is_sample() ? " (a sample)" : ""),
                 kInk);
    canvas_.Text(
        {40, 74}, Anchor::kStart, 14,
        Cat("recommended (ringed): ", chosen().profile,
            absl::StrFormat(
                "   saves %.1f %% at %s", 100 * chosen().count.savings(),
                FormatByteSize(static_cast<std::uint64_t>(chosen().count.average_bytes())))),
        kFaint);
  }

  // An axis with some room around the values.
  static Axis Around(double low, double high, bool logarithmic, double low_place,
                     double high_place) {
    Axis axis;
    axis.logarithmic = logarithmic;
    axis.low_place = low_place;
    axis.high_place = high_place;
    if (logarithmic) {
      const double room = std::max(1.15, std::pow(high / low, 0.05));
      axis.low = low / room;
      axis.high = high * room;
    } else {
      const double room = std::max(0.5, (high - low) * 0.08);
      axis.low = std::max(0.0, low - room);
      axis.high = std::min(100.0, high + room);
    }
    return axis;
  }

  void Frame(const Panel& panel, std::string_view title, std::string_view x_title,
             std::string_view y_title, const std::vector<double>& x_ticks, bool bytes) {
    const double left = panel.x.low_place;
    const double right = panel.x.high_place;
    canvas_.Text({left, kTop - 34}, Anchor::kStart, 16, title, kInk);
    canvas_.Text({left, kTop - 12}, Anchor::kStart, 12, y_title, kFaint);
    for (const double tick : LinearTicks(panel.y, 8)) {
      const double y = panel.y.Place(tick);
      canvas_.Line(std::array<Point, 2>{{{left, y}, {right, y}}}, 1, kGrid);
      canvas_.Text({left - 8, y + 4}, Anchor::kEnd, 12, absl::StrFormat("%g", tick), kFaint);
    }
    for (const double tick : x_ticks) {
      const double x = panel.x.Place(tick);
      canvas_.Line(std::array<Point, 2>{{{x, kTop}, {x, kBottom}}}, 1, kGrid);
      canvas_.Text({x, kBottom + 20}, Anchor::kMiddle, 12,
                   bytes ? BytesLabel(tick) : absl::StrFormat("%g", tick), kFaint);
    }
    canvas_.Line(std::array<Point, 3>{{{left, kTop}, {left, kBottom}, {right, kBottom}}}, 1.5,
                 kFaint);
    canvas_.Text({(left + right) / 2, kBottom + 44}, Anchor::kMiddle, 12, x_title, kFaint);
  }

  static std::string BytesLabel(double bytes) {
    if (bytes >= 1 << 20) return absl::StrFormat("%g MiB", bytes / (1 << 20));
    if (bytes >= 1 << 10) return absl::StrFormat("%g KiB", bytes / (1 << 10));
    return absl::StrFormat("%g B", bytes);
  }

  void Marker(Point at, const Style& style, double radius) {
    std::vector<Point> corners;
    for (int corner = 0; corner < style.corners; ++corner) {
      const double angle = style.turn + 2 * std::numbers::pi * corner / style.corners;
      corners.push_back({at.x + radius * std::cos(angle), at.y + radius * std::sin(angle)});
    }
    canvas_.Polygon(corners, style.color);
  }

  // Around what is recommended; under its marker.
  void Ring(Point at) {
    constexpr int kRound = 48;
    Marker(at, {kInk, kRound, 0}, kMarkerRadius + 5);
    Marker(at, {{0xff, 0xff, 0xff}, kRound, 0}, kMarkerRadius + 3);
  }

  void SavingsOverAverage() {
    double least_average = chosen().count.average_bytes();
    double most_average = least_average;
    double least_savings = 100 * chosen().count.savings();
    double most_savings = least_savings;
    for (const ProfileFigures& figures : analysis_.figures) {
      least_average = std::min(least_average, figures.count.average_bytes());
      most_average = std::max(most_average, figures.count.average_bytes());
      // A baseline: it may lie so far below that nothing else could be told apart.
      if (figures.algorithm == kFixed && options_.variants.size() > 1) continue;
      least_savings = std::min(least_savings, 100 * figures.count.savings());
      most_savings = std::max(most_savings, 100 * figures.count.savings());
    }
    Panel panel;
    panel.x = Around(least_average, most_average, true, 84, 640);
    panel.y = Around(least_savings, most_savings, false, kBottom, kTop);
    Frame(panel, "Savings over average chunk", "average chunk on this data",
          "saved, % of all bytes", PowerOfTwoTicks(panel.x, 8), true);
    const auto place = [&](const ProfileFigures& figures) {
      return panel.At(figures.count.average_bytes(), 100 * figures.count.savings());
    };
    Ring(place(chosen()));
    for (std::size_t number = 0; number < options_.variants.size(); ++number) {
      std::vector<Point> points;
      for (const ProfileFigures& figures : analysis_.figures) {
        if (figures.wanted_bytes > 0 && figures.algorithm == options_.variants[number]) {
          points.push_back(place(figures));
        }
      }
      std::sort(points.begin(), points.end(),
                [](const Point& left, const Point& right) { return left.x < right.x; });
      if (options_.variants[number] == kFixed && !IsInside(panel, points)) {
        fixed_is_outside_ = true;
        continue;
      }
      canvas_.Line(points, 1.6, StyleOf(number).color);
      for (const Point& point : points) Marker(point, StyleOf(number), kMarkerRadius);
    }
    for (const ProfileFigures& figures : analysis_.figures) {
      if (figures.wanted_bytes == 0) Marker(place(figures), kNamedStyle, kMarkerRadius);
    }
  }

  static bool IsInside(const Panel& panel, const std::vector<Point>& points) {
    return std::all_of(points.begin(), points.end(), [&](const Point& point) {
      return point.y <= panel.y.low_place && point.y >= panel.y.high_place;
    });
  }

  // Those of the recommended average; not "fixed", which looks at no byte.
  std::vector<const ProfileFigures*> Rivals() const {
    std::vector<const ProfileFigures*> rivals;
    for (const ProfileFigures& figures : analysis_.figures) {
      if (figures.wanted_bytes != chosen().wanted_bytes || figures.algorithm == kFixed) continue;
      if (!figures.savings_at_equal_average.has_value()) continue;
      if (figures.speed.hashed_bytes_per_second > 0) rivals.push_back(&figures);
    }
    return rivals;
  }

  void SavingsOverSpeed() {
    const std::vector<const ProfileFigures*> rivals = Rivals();
    if (rivals.empty()) return;
    constexpr double kGiga = 1e9;
    const double goal =
        options_.recommend.min_share * chosen().speed.fingerprint_bytes_per_second / kGiga;
    double slowest = goal;
    double fastest = goal;
    double least = 100;
    double most = 0;
    for (const ProfileFigures* rival : rivals) {
      slowest = std::min(slowest, rival->speed.hashed_bytes_per_second / kGiga);
      fastest = std::max(fastest, rival->speed.hashed_bytes_per_second / kGiga);
      least = std::min(least, 100 * *rival->savings_at_equal_average);
      most = std::max(most, 100 * *rival->savings_at_equal_average);
    }
    Panel panel;
    panel.x = Around(slowest, fastest, true, 744, 1240);
    panel.y = Around(least, most, false, kBottom, kTop);
    Frame(
        panel,
        Cat("Savings over speed, at ",
            FormatByteSize(static_cast<std::uint64_t>(chosen().compared_at_bytes)), " on average"),
        "cutting and fingerprinting, one core, GB/s", "saved, % of all bytes",
        DecimalLogTicks(panel.x), false);
    const double x = panel.x.Place(goal);
    canvas_.Line(std::array<Point, 2>{{{x, kTop}, {x, kBottom}}}, 1.5, kGoal);
    canvas_.Text({1240, kTop - 12}, Anchor::kEnd, 12,
                 absl::StrFormat("red: %g of the speed of fingerprinting alone",
                                 options_.recommend.min_share),
                 kGoal);
    const auto place = [&](const ProfileFigures& figures) {
      return panel.At(figures.speed.hashed_bytes_per_second / kGiga,
                      100 * *figures.savings_at_equal_average);
    };
    for (const ProfileFigures* rival : rivals) {
      if (rival == &chosen()) Ring(place(*rival));
    }
    // The line of the goal.
    std::vector<Box> taken = {{x - 3, kTop, x + 3, kBottom}};
    for (const ProfileFigures* rival : rivals) {
      const Point at = place(*rival);
      const double radius = rival == &chosen() ? kMarkerRadius + 5 : kMarkerRadius + 1;
      taken.push_back({at.x - radius, at.y - radius, at.x + radius, at.y + radius});
    }
    for (const ProfileFigures* rival : rivals) {
      const auto number =
          std::find(options_.variants.begin(), options_.variants.end(), rival->algorithm) -
          options_.variants.begin();
      Marker(place(*rival), StyleOf(static_cast<std::size_t>(number)), kMarkerRadius + 1);
      Label(place(*rival), rival->algorithm, panel, taken);
    }
  }

  struct Box {
    double left = 0;
    double top = 0;
    double right = 0;
    double bottom = 0;

    bool Meets(const Box& other) const {
      return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
  };

  // A name beside its marker, where it covers nothing; none where there is no room, for the legend
  // has it too.
  void Label(Point at, std::string_view name, const Panel& panel, std::vector<Box>& taken) {
    constexpr double kSize = 11;
    constexpr double kAway = 13;
    // Of a letter, on average; rather too much.
    const double width = 0.62 * kSize * static_cast<double>(name.size());
    const std::array<Point, 4> starts = {{{at.x + kAway, at.y + 4},
                                          {at.x - kAway - width, at.y + 4},
                                          {at.x - width / 2, at.y - kAway},
                                          {at.x - width / 2, at.y + kAway + 7}}};
    for (const Point& start : starts) {
      const Box box = {start.x, start.y - kSize, start.x + width, start.y + 3};
      const bool inside = box.left > panel.x.low_place && box.right < panel.x.high_place &&
                          box.top > kTop && box.bottom < kBottom;
      const bool is_free = std::none_of(taken.begin(), taken.end(),
                                        [&](const Box& other) { return box.Meets(other); });
      if (!inside || !is_free) continue;
      canvas_.Text(start, Anchor::kStart, kSize, name, kFaint);
      taken.push_back(box);
      return;
    }
  }

  void Legend() {
    std::size_t place = 0;
    const auto entry = [&](std::string_view name, const Style& style) {
      const double x = 60 + 152 * static_cast<double>(place % kLegendColumns);
      const std::size_t row = place / kLegendColumns;
      const double y = kLegendTop + 26 * static_cast<double>(row);
      Marker({x, y - 4}, style, kMarkerRadius + 1);
      canvas_.Text({x + 14, y}, Anchor::kStart, 13, name, kInk);
      ++place;
    };
    for (std::size_t number = 0; number < options_.variants.size(); ++number) {
      const bool outside = options_.variants[number] == kFixed && fixed_is_outside_;
      entry(outside ? "fixed (far below)" : options_.variants[number], StyleOf(number));
    }
    if (!options_.profiles.empty()) entry("named by hand", kNamedStyle);
  }

  static constexpr Style kNamedStyle = {kInk, 4, 0};

  SvgCanvas& canvas_;
  const Corpus& corpus_;
  const AnalysisOptions& options_;
  const Analysis& analysis_;
  bool fixed_is_outside_ = false;
};

}  // namespace

absl::StatusOr<PlotFormat> PlotFormatOf(std::string_view file) {
  if (file.ends_with(".svg")) return PlotFormat::kSvg;
  if (file.ends_with(".html")) return PlotFormat::kHtml;
  if (file.ends_with(".png")) {
    return absl::InvalidArgumentError(
        Cat("'", file,
            "': pictures are drawn as .svg, or as .html with their figures, and no more "
            "as .png; browsers and rsvg-convert make one of an .svg"));
  }
  return absl::InvalidArgumentError(
      Cat("'", file, "' ends neither in .svg nor in .html, which says what is drawn"));
}

std::string Plot(const Corpus& corpus, const AnalysisOptions& options, const Analysis& analysis,
                 PlotFormat format) {
  SvgCanvas canvas(kWidth, kHeight);
  Picture(canvas, corpus, options, analysis).Draw();
  if (format == PlotFormat::kHtml) return PlotPage(analysis, canvas.Finish());
  return Cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", canvas.Finish());
}

}  // namespace kerf::agent::analyze
