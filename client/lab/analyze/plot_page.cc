#include "client/lab/analyze/plot_page.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "base/units.h"
#include "client/lab/analyze/report.h"
#include "client/lab/analyze/svg_canvas.h"

namespace kerf::agent::analyze {
namespace {

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>kerf analyze</title>
<style>
body { max-width: 1280px; margin: 1em auto; padding: 0 1em; color: #22262b; background: #fff;
       font: 14px "DejaVu Sans", Verdana, Helvetica, sans-serif; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid #e3e6e9; }
th:first-child, td:first-child { text-align: left; }
.recommended { font-weight: bold; }
</style>
</head>
<body>
)";

constexpr std::string_view kTableHead =
    "<table>\n<tr><th>profile</th><th>average chunk</th><th>saved, %</th>"
    "<th>at one average for all, %</th><th>cutting, one core, GB/s</th></tr>\n";

std::string Row(const ProfileFigures& figures, bool is_recommended) {
  const std::string equal = figures.savings_at_equal_average.has_value()
                                ? absl::StrFormat("%.2f", 100 * *figures.savings_at_equal_average)
                                : "";
  return Cat(is_recommended ? "<tr class=\"recommended\">" : "<tr>", "<td>",
             EscapeMarkup(figures.profile), "</td><td>",
             FormatByteSize(static_cast<std::uint64_t>(figures.count.average_bytes())),
             absl::StrFormat("</td><td>%.2f</td><td>%s</td><td>%.2f</td></tr>\n",
                             100 * figures.count.savings(), equal,
                             figures.speed.cut_bytes_per_second / 1e9));
}

// For a <script>: nothing in it can end the element.
std::string ScriptJson(const nlohmann::json& object) {
  std::string text;
  for (const char character :
       object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (character == '<') {
      text += "\\u003c";
    } else {
      text += character;
    }
  }
  return text;
}

}  // namespace

std::string PlotPage(const Analysis& analysis, std::string_view picture) {
  std::string rows;
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t index = 0; index < analysis.figures.size(); ++index) {
    rows += Row(analysis.figures[index], index == analysis.recommendation.index);
    all.push_back(FigureJson(analysis.figures[index]));
  }
  return Cat(kHead, picture, kTableHead, rows,
             "</table>\n<script type=\"application/json\" id=\"figures\">\n", ScriptJson(all),
             "\n</script>\n</body>\n</html>\n");
}

}  // namespace kerf::agent::analyze
