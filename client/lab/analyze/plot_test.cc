#include "client/lab/analyze/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/lab/analyze/axis.h"
#include "client/lab/analyze/svg_canvas.h"

namespace kerf::agent::analyze {
namespace {

using ::testing::AllOf;
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
      figures.speed = {"avx2", 3e9 * (number + 1), 1e9 * (number + 1), 20e9, 4e9};
      drawn.analysis.figures.push_back(figures);
      ++number;
    }
  }
  CompareAtEqualAverage(drawn.analysis.figures);
  drawn.analysis.recommendation = Recommend(drawn.analysis.figures, {});
  return drawn;
}

std::string Draw(const Drawn& drawn, PlotFormat format) {
  return Plot(drawn.corpus, drawn.options, drawn.analysis, format);
}

TEST(PlotTest, FormatIsThatOfTheName) {
  EXPECT_EQ(*PlotFormatOf("a.b/c.svg"), PlotFormat::kSvg);
  EXPECT_EQ(*PlotFormatOf("c.html"), PlotFormat::kHtml);
  EXPECT_EQ(PlotFormatOf("c.pdf").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(PlotFormatOf("").ok());
  const absl::Status png = PlotFormatOf("c.png").status();
  EXPECT_EQ(png.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(png.message(), AllOf(HasSubstr(".svg"), HasSubstr(".html")));
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

TEST(PlotTest, SvgHasTheColours) {
  const std::string svg = Draw(MakeDrawn(), PlotFormat::kSvg);
  // The ground, the first three algorithms, and text.
  for (const char* color : {"fill=\"#ffffff\"", "fill=\"#1f77b4\"", "fill=\"#d95f0e\"",
                            "fill=\"#2c8c3c\"", "fill=\"#22262b\""}) {
    EXPECT_THAT(svg, HasSubstr(color));
  }
}

TEST(PlotTest, HtmlHasThePictureAndItsFiguresAndNeedsNothingElse) {
  const Drawn drawn = MakeDrawn();
  const std::string page = Draw(drawn, PlotFormat::kHtml);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(CountOf(page, "<svg "), 1u);
  EXPECT_EQ(CountOf(page, "<?xml"), 0u);
  EXPECT_EQ(CountOf(page, "http"), 1u) << "the name space of SVG, which nobody fetches";
  EXPECT_EQ(CountOf(page, "<td>fixed:&lt;8192&amp;&gt;</td>"), 1u);
  EXPECT_EQ(CountOf(page, "class=\"recommended\""), 1u);
  const std::string begin = "id=\"figures\">";
  const std::size_t at = page.find(begin) + begin.size();
  const std::string json = page.substr(at, page.find("</script>") - at);
  EXPECT_EQ(CountOf(json, "<"), 0u);
  const nlohmann::json figures = nlohmann::json::parse(json, nullptr, false);
  ASSERT_EQ(figures.size(), drawn.analysis.figures.size());
  EXPECT_EQ(figures[1]["profile"], "mincdc:<4096&>");
}

TEST(SvgCanvasTest, PolygonsAndTextsAreWhereTheyWereDrawn) {
  SvgCanvas canvas(10, 10);
  const Point corners[] = {{1, 1}, {4, 1}, {4, 2}, {1, 2}};
  canvas.Polygon(corners, {255, 0, 0});
  canvas.Text({3, 4}, Anchor::kEnd, 12, "a<b", {0, 0, 255});
  const std::string svg = canvas.Finish();
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 10 10\""));
  EXPECT_THAT(svg,
              HasSubstr("<polygon points=\"1.0,1.0 4.0,1.0 4.0,2.0 1.0,2.0\" fill=\"#ff0000\"/>"));
  EXPECT_THAT(svg, HasSubstr("<text x=\"3.0\" y=\"4.0\" text-anchor=\"end\" font-size=\"12\" "
                             "fill=\"#0000ff\">a&lt;b</text>"));
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
