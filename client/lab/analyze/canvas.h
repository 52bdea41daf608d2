// Where a picture is drawn: vectors (SVG) or pixels (PNG).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kerf::agent::analyze {

// In units of the canvas, from its upper left corner.
struct Point {
  double x = 0;
  double y = 0;
};

struct Color {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

// Later things lie on earlier ones; the ground is white. Not thread-safe.
class Canvas {
 public:
  virtual ~Canvas() = default;

  // A line through the points.
  virtual void Line(std::span<const Point> points, double width, Color color) = 0;
  // Filled.
  virtual void Polygon(std::span<const Point> corners, Color color) = 0;
  // `where` is on the baseline, at the start, middle or end of the text. `size` is the font's.
  // ASCII only.
  virtual void Text(Point where, Anchor anchor, double size, std::string_view text,
                    Color color) = 0;

  // The file's bytes. Internal: the library that makes them failed.
  virtual absl::StatusOr<std::string> Finish() = 0;
};

std::unique_ptr<Canvas> MakeSvgCanvas(int width, int height);
// Two pixels a unit in each direction.
std::unique_ptr<Canvas> MakePngCanvas(int width, int height);

}  // namespace kerf::agent::analyze
