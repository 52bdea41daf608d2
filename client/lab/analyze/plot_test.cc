#include "client/lab/analyze/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/lab/analyze/axis.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t CountOf(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

struct Drawn {
  Corpus corpus;
  AnalysisOptions options;
  Analysis analysis;
};

// Three algorithms at four averages.
Drawn MakeDrawn() {
  Drawn drawn;
  drawn.options.variants = {"fixed", "mincdc", "fastcdc2020"};
  drawn.options.averages = {4096, 8192, 16384, 32768};
  constexpr std::uint64_t kTotal = std::uint64_t{1} << 30;
  for (const std::uint64_t wanted : drawn.options.averages) {
    double number = 0;
    for (const std::string& variant : drawn.options.variants) {
      ProfileFigures figures;
      figures.algorithm = variant;
      figures.profile = Cat(variant, ":<", wanted, "&>");
      figures.wanted_bytes = wanted;
      figures.count.total_bytes = kTotal;
      figures.count.chunk_count = kTotal / wanted;
      figures.count.unique_chunk_count = figures.count.chunk_count;
      // The first lies between the others.
      const double offset = number == 0 ? 1 : number == 1 ? 2 : 0;
      const double savings = 0.5 + 0.01 * offset - 0.02 * std::log2(static_cast<double>(wanted));
      figures.count.unique_bytes =
          static_cast<std::uint64_t>((1 - savings) * static_cast<double>(kTotal));
      figures.speed = {"avx2", 3e9 * (number + 1), 2e9, 20e9};
      drawn.analysis.figures.push_back(figures);
      ++number;
    }
  }
  CompareAtEqualAverage(drawn.analysis.figures);
  drawn.analysis.recommendation = Recommend(drawn.analysis.figures, {});
  return drawn;
}

std::string Draw(const Drawn& drawn, PlotFormat format) {
  const auto file = Plot(drawn.corpus, drawn.options, drawn.analysis, format);
  EXPECT_TRUE(file.ok()) << file.status();
  return file.value_or("");
}

TEST(PlotTest, FormatIsThatOfTheName) {
  EXPECT_EQ(*PlotFormatOf("a.b/c.svg"), PlotFormat::kSvg);
  EXPECT_EQ(*PlotFormatOf("c.png"), PlotFormat::kPng);
  EXPECT_EQ(PlotFormatOf("c.pdf").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(PlotFormatOf("").ok());
}

TEST(PlotTest, SvgHasALineForEachAlgorithm) {
  const std::string svg = Draw(MakeDrawn(), PlotFormat::kSvg);
  EXPECT_TRUE(svg.starts_with("<?xml"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "<svg "), 1u);
  EXPECT_EQ(CountOf(svg, "<text "), CountOf(svg, "</text>"));
  // The width of algorithms' lines.
  EXPECT_EQ(CountOf(svg, "stroke-width=\"1.6\""), 3u);
  for (const char* name : {">fixed<", ">mincdc<", ">fastcdc2020<", ">8 KiB<", "% of all bytes",
                           "GB/s", "average chunk", ":&lt;", "&amp;"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
  EXPECT_EQ(CountOf(svg, "nan"), 0u);
  EXPECT_EQ(CountOf(svg, "inf"), 0u);
}

TEST(PlotTest, ABaselineFarBelowIsLeftOutAndSaidToBe) {
  Drawn drawn = MakeDrawn();
  EXPECT_EQ(CountOf(Draw(drawn, PlotFormat::kSvg), "far below"), 0u);
  for (ProfileFigures& figures : drawn.analysis.figures) {
    if (figures.algorithm != "fixed") figures.count.unique_bytes /= 4;
  }
  const std::string svg = Draw(drawn, PlotFormat::kSvg);
  EXPECT_EQ(CountOf(svg, ">fixed (far below)<"), 1u);
  EXPECT_EQ(CountOf(svg, "stroke-width=\"1.6\""), 2u);
}

TEST(PlotTest, OneProfileAloneIsDrawnToo) {
  Drawn drawn = MakeDrawn();
  drawn.analysis.figures.resize(1);
  drawn.options.variants = {"fixed"};
  drawn.analysis.recommendation = Recommend(drawn.analysis.figures, {});
  const std::string svg = Draw(drawn, PlotFormat::kSvg);
  EXPECT_EQ(CountOf(svg, "nan") + CountOf(svg, "inf"), 0u);
}

TEST(PlotTest, PngIsReadableAndHasTheColours) {
  const std::string file = Draw(MakeDrawn(), PlotFormat::kPng);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, file.data(), file.size()), 0);
  EXPECT_EQ(image.width, 2560u);
  EXPECT_EQ(image.height, 1440u);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  std::set<std::uint32_t> colors;
  std::size_t white_count = 0;
  for (std::size_t at = 0; at < pixels.size(); at += 3) {
    const std::uint32_t color = static_cast<std::uint32_t>(pixels[at] << 16) |
                                static_cast<std::uint32_t>(pixels[at + 1] << 8) | pixels[at + 2];
    colors.insert(color);
    if (color == 0xffffff) ++white_count;
  }
  // Of the first three algorithms, and of text.
  for (const std::uint32_t color : {0x1f77b4u, 0xd95f0eu, 0x2c8c3cu, 0x22262bu}) {
    EXPECT_TRUE(colors.contains(color)) << std::hex << color;
  }
  EXPECT_GT(white_count, pixels.size() / 3 * 8 / 10);
  EXPECT_LT(white_count, pixels.size() / 3);
}

TEST(CanvasTest, PolygonsFillTheirPixelsTheRightWayUp) {
  const std::unique_ptr<Canvas> canvas = MakePngCanvas(10, 10);
  const Point corners[] = {{1, 1}, {4, 1}, {4, 2}, {1, 2}};
  canvas->Polygon(corners, {255, 0, 0});
  const std::string file = *canvas->Finish();
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&image, file.data(), file.size()), 0);
  image.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 20; ++x) {
      const bool inside = x >= 2 && x < 8 && y >= 2 && y < 4;
      EXPECT_EQ(pixels[static_cast<std::size_t>((y * 20 + x) * 3 + 1)], inside ? 0 : 255)
          << x << " " << y;
    }
  }
}

TEST(AxisTest, PlacesAndTicks) {
  const Axis linear{10, 20, false, 100, 200};
  EXPECT_DOUBLE_EQ(linear.Place(15), 150);
  EXPECT_THAT(LinearTicks(linear, 5), ElementsAre(10, 12, 14, 16, 18, 20));
  const Axis down{0, 100, false, 500, 100};
  EXPECT_DOUBLE_EQ(down.Place(25), 400);
  EXPECT_THAT(LinearTicks(down, 4), ElementsAre(0, 50, 100));
  const Axis logarithmic{1000, 70'000, true, 0, 1};
  EXPECT_NEAR(logarithmic.Place(std::sqrt(70e6)), 0.5, 1e-12);
  EXPECT_THAT(PowerOfTwoTicks(logarithmic, 8),
              ElementsAre(1024, 2048, 4096, 8192, 16384, 32768, 65536));
  EXPECT_THAT(PowerOfTwoTicks(logarithmic, 3), ElementsAre(1024, 8192, 65536));
  EXPECT_THAT(PowerOfTwoTicks({1500, 5000, true, 0, 1}, 8), ElementsAre(1536, 2048, 3072, 4096));
  EXPECT_THAT(DecimalLogTicks({0.3, 25, true, 0, 1}), ElementsAre(0.5, 1, 2, 5, 10, 20));
}

}  // namespace
}  // namespace kerf::agent::analyze
