// Shapes and letters are both filled by FreeType's rasterizer; the font is inside the program, so
// that a picture is the same on every machine.
#include <ft2build.h>
#include <png.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "client/lab/analyze/canvas.h"

extern "C" {
// DejaVu Sans, from the library @dejavu_sans.
extern const unsigned char kerf_dejavu_sans_begin[];
extern const std::uint64_t kerf_dejavu_sans_size;
}

namespace kerf::agent::analyze {
namespace {

constexpr int kPixelsPerUnit = 2;
// FreeType counts in 64ths of a pixel.
constexpr double kFixedPoint = 64;
constexpr std::size_t kChannels = 3;

FT_Pos ToFixed(double value) { return static_cast<FT_Pos>(std::lround(value * kFixedPoint)); }

class PngCanvas : public Canvas {
 public:
  PngCanvas(int width, int height)
      : width_(width * kPixelsPerUnit),
        height_(height * kPixelsPerUnit),
        pixels_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_) * kChannels,
                0xff) {
    KERF_CHECK(FT_Init_FreeType(&library_) == 0);
    const auto size = static_cast<FT_Long>(kerf_dejavu_sans_size);
    KERF_CHECK(FT_New_Memory_Face(library_, kerf_dejavu_sans_begin, size, 0, &face_) == 0);
  }
  ~PngCanvas() override { FT_Done_FreeType(library_); }
  PngCanvas(const PngCanvas&) = delete;
  PngCanvas& operator=(const PngCanvas&) = delete;

  void Line(std::span<const Point> points, double width, Color color) override {
    for (std::size_t index = 0; index + 1 < points.size(); ++index) {
      const Point& from = points[index];
      const Point& to = points[index + 1];
      const double length = std::hypot(to.x - from.x, to.y - from.y);
      if (length == 0) continue;
      // At right angles to the line.
      const double x = (to.y - from.y) / length * width / 2;
      const double y = (from.x - to.x) / length * width / 2;
      const Point corners[] = {{from.x + x, from.y + y},
                               {to.x + x, to.y + y},
                               {to.x - x, to.y - y},
                               {from.x - x, from.y - y}};
      Polygon(corners, color);
    }
  }

  void Polygon(std::span<const Point> corners, Color color) override {
    std::vector<FT_Vector> points;
    for (const Point& corner : corners) {
      points.push_back(
          {ToFixed(corner.x * kPixelsPerUnit), ToFixed(height_ - corner.y * kPixelsPerUnit)});
    }
    std::vector<char> tags(points.size(), FT_CURVE_TAG_ON);
    auto last = static_cast<short>(points.size() - 1);
    FT_Outline outline{};
    outline.n_contours = 1;
    outline.n_points = static_cast<short>(points.size());
    outline.points = points.data();
    outline.tags = tags.data();
    outline.contours = &last;
    Fill(outline, color);
  }

  void Text(Point where, Anchor anchor, double size, std::string_view text, Color color) override {
    KERF_CHECK(FT_Set_Char_Size(face_, 0, ToFixed(size * kPixelsPerUnit), 72, 72) == 0);
    FT_Pos pen = ToFixed(where.x * kPixelsPerUnit);
    const FT_Pos width = WidthOf(text);
    if (anchor == Anchor::kMiddle) pen -= width / 2;
    if (anchor == Anchor::kEnd) pen -= width;
    const FT_Pos baseline = ToFixed(height_ - where.y * kPixelsPerUnit);
    for (const char character : text) {
      Load(character);
      FT_Outline& outline = face_->glyph->outline;
      FT_Outline_Translate(&outline, pen, baseline);
      Fill(outline, color);
      pen += face_->glyph->advance.x;
    }
  }

  absl::StatusOr<std::string> Finish() override {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(width_);
    image.height = static_cast<png_uint_32>(height_);
    image.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    std::string file(size, '\0');
    if (png_image_write_to_memory(&image, file.data(), &size, 0, pixels_.data(), 0, nullptr) == 0) {
      return absl::InternalError(image.message);
    }
    file.resize(size);
    return file;
  }

 private:
  void Load(char character) {
    const auto code = static_cast<unsigned char>(character);
    KERF_CHECK(FT_Load_Char(face_, code, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) == 0);
  }

  FT_Pos WidthOf(std::string_view text) {
    FT_Pos width = 0;
    for (const char character : text) {
      Load(character);
      width += face_->glyph->advance.x;
    }
    return width;
  }

  void Fill(FT_Outline& outline, Color color) {
    color_ = color;
    FT_Raster_Params parameters{};
    parameters.flags = FT_RASTER_FLAG_AA | FT_RASTER_FLAG_DIRECT | FT_RASTER_FLAG_CLIP;
    parameters.gray_spans = [](int y, int count, const FT_Span* spans, void* canvas) {
      for (int index = 0; index < count; ++index) {
        static_cast<PngCanvas*>(canvas)->Blend(y, spans[index]);
      }
    };
    parameters.user = this;
    parameters.clip_box = {0, 0, width_, height_};
    KERF_CHECK(FT_Outline_Render(library_, &outline, &parameters) == 0);
  }

  // Rows count from below.
  void Blend(int y, const FT_Span& span) {
    const int row = height_ - 1 - y;
    if (row < 0 || row >= height_) return;
    const int end = std::min<int>(width_, span.x + span.len);
    for (int x = std::max<int>(0, span.x); x < end; ++x) {
      std::uint8_t* const pixel =
          &pixels_[(static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                    static_cast<std::size_t>(x)) *
                   kChannels];
      pixel[0] = Mix(pixel[0], color_.red, span.coverage);
      pixel[1] = Mix(pixel[1], color_.green, span.coverage);
      pixel[2] = Mix(pixel[2], color_.blue, span.coverage);
    }
  }

  static std::uint8_t Mix(std::uint8_t under, std::uint8_t over, unsigned char coverage) {
    return static_cast<std::uint8_t>((under * (255 - coverage) + over * coverage + 127) / 255);
  }

  const int width_;
  const int height_;
  std::vector<std::uint8_t> pixels_;
  FT_Library library_ = nullptr;
  FT_Face face_ = nullptr;
  Color color_;
};

}  // namespace

std::unique_ptr<Canvas> MakePngCanvas(int width, int height) {
  return std::make_unique<PngCanvas>(width, height);
}

}  // namespace kerf::agent::analyze
