#include "client/lab/analyze/svg_canvas.h"

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace kerf::agent::analyze {
namespace {

std::string Hex(Color color) {
  return absl::StrFormat("#%02x%02x%02x", color.red, color.green, color.blue);
}

std::string Points(std::span<const Point> points) {
  std::string text;
  for (const Point& point : points) {
    absl::StrAppendFormat(&text, "%s%.1f,%.1f", text.empty() ? "" : " ", point.x, point.y);
  }
  return text;
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    if (character == '&') {
      escaped += "&amp;";
    } else if (character == '<') {
      escaped += "&lt;";
    } else if (character == '>') {
      escaped += "&gt;";
    } else {
      escaped += character;
    }
  }
  return escaped;
}

SvgCanvas::SvgCanvas(int width, int height) {
  text_ = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
      "%d\" font-family=\"DejaVu Sans, Verdana, Helvetica, sans-serif\">\n"
      "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
      width, height, width, height, width, height);
}

void SvgCanvas::Line(std::span<const Point> points, double width, Color color) {
  absl::StrAppendFormat(&text_,
                        "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" "
                        "stroke-width=\"%.1f\" stroke-linejoin=\"round\"/>\n",
                        Points(points), Hex(color), width);
}

void SvgCanvas::Polygon(std::span<const Point> corners, Color color) {
  absl::StrAppendFormat(&text_, "<polygon points=\"%s\" fill=\"%s\"/>\n", Points(corners),
                        Hex(color));
}

void SvgCanvas::Text(Point where, Anchor anchor, double size, std::string_view text, Color color) {
  const char* const name = anchor == Anchor::kStart    ? "start"
                           : anchor == Anchor::kMiddle ? "middle"
                                                       : "end";
  absl::StrAppendFormat(&text_,
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%.0f\" "
                        "fill=\"%s\">%s</text>\n",
                        where.x, where.y, name, size, Hex(color), EscapeMarkup(text));
}

}  // namespace kerf::agent::analyze
