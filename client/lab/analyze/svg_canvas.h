// Where a picture is drawn: as SVG, which is text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

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

// Text as it stands between the tags of SVG and HTML.
std::string EscapeMarkup(std::string_view text);

// Later things lie on earlier ones; the ground is white. Not thread-safe.
class SvgCanvas {
 public:
  SvgCanvas(int width, int height);

  // A line through the points.
  void Line(std::span<const Point> points, double width, Color color);
  // Filled.
  void Polygon(std::span<const Point> corners, Color color);
  // `where` is on the baseline, at the start, middle or end of the text. `size` is the font's.
  void Text(Point where, Anchor anchor, double size, std::string_view text, Color color);

  // The element <svg>, for a page; a file has an XML declaration before it.
  std::string Finish() const { return text_ + "</svg>\n"; }

 private:
  std::string text_;
};

}  // namespace kerf::agent::analyze
