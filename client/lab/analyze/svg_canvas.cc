#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "client/lab/analyze/canvas.h"

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

std::string Escape(std::string_view text) {
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

class SvgCanvas : public Canvas {
 public:
  SvgCanvas(int width, int height) {
    text_ = absl::StrFormat(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d "
        "%d\" font-family=\"DejaVu Sans, Verdana, Helvetica, sans-serif\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
        width, height, width, height, width, height);
  }

  void Line(std::span<const Point> points, double width, Color color) override {
    absl::StrAppendFormat(&text_,
                          "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" "
                          "stroke-width=\"%.1f\" stroke-linejoin=\"round\"/>\n",
                          Points(points), Hex(color), width);
  }

  void Polygon(std::span<const Point> corners, Color color) override {
    absl::StrAppendFormat(&text_, "<polygon points=\"%s\" fill=\"%s\"/>\n", Points(corners),
                          Hex(color));
  }

  void Text(Point where, Anchor anchor, double size, std::string_view text, Color color) override {
    const char* const name = anchor == Anchor::kStart    ? "start"
                             : anchor == Anchor::kMiddle ? "middle"
                                                         : "end";
    absl::StrAppendFormat(&text_,
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%.0f\" "
                          "fill=\"%s\">%s</text>\n",
                          where.x, where.y, name, size, Hex(color), Escape(text));
  }

  absl::StatusOr<std::string> Finish() override { return text_ + "</svg>\n"; }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<Canvas> MakeSvgCanvas(int width, int height) {
  return std::make_unique<SvgCanvas>(width, height);
}

}  // namespace kerf::agent::analyze
