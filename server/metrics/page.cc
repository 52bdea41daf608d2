#include "server/metrics/page.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::metrics {
namespace {

// A backslash and a line feed everywhere, a quotation mark in the value of a label.
std::string Escape(std::string_view text, bool is_label) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char character : text) {
    if (character == '\\') {
      escaped += "\\\\";
    } else if (character == '\n') {
      escaped += "\\n";
    } else if (character == '"' && is_label) {
      escaped += "\\\"";
    } else {
      escaped.push_back(character);
    }
  }
  return escaped;
}

std::string TextOf(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace

void Page::Begin(const Metric& metric, LabelValues labels) {
  KERF_CHECK(labels.size() == metric.labels.size());
  if (current_ == metric.name) return;
  // A second group of the same metric is no valid page.
  KERF_CHECK(begun_.insert(metric.name).second);
  current_ = metric.name;
  text_ += Cat("# HELP ", metric.name, " ", Escape(metric.help, /*is_label=*/false), "\n# TYPE ",
               metric.name, " ", NameOf(metric.type), "\n");
}

void Page::Sample(const Metric& metric, std::string_view suffix, LabelValues labels,
                  std::string_view bound, std::string_view value) {
  std::string set;
  const auto add = [&set](std::string_view name, std::string_view label) {
    set += Cat(set.empty() ? "{" : ",", name, "=\"", Escape(label, /*is_label=*/true), "\"");
  };
  std::size_t index = 0;
  for (const std::string_view label : labels) add(metric.labels[index++].name, label);
  if (!bound.empty()) add("le", bound);
  text_ += Cat(metric.name, suffix, set, set.empty() ? "" : "}", " ", value, "\n");
}

void Page::Add(const Metric& metric, std::uint64_t value, LabelValues labels) {
  Begin(metric, labels);
  Sample(metric, "", labels, "", Cat(value));
}

void Page::AddReal(const Metric& metric, double value, LabelValues labels) {
  Begin(metric, labels);
  Sample(metric, "", labels, "", TextOf(value));
}

void Page::AddHistogram(const Metric& metric, const Histogram& histogram, double units,
                        LabelValues labels) {
  Begin(metric, labels);
  const HistogramCounts counts = histogram.counts();
  std::uint64_t count = 0;
  for (std::size_t index = 0; index < histogram.bounds().size(); ++index) {
    count += counts.buckets[index];
    const double bound = static_cast<double>(histogram.bounds()[index]) / units;
    Sample(metric, "_bucket", labels, TextOf(bound), Cat(count));
  }
  count += counts.buckets[histogram.bounds().size()];
  Sample(metric, "_bucket", labels, "+Inf", Cat(count));
  Sample(metric, "_sum", labels, "", TextOf(static_cast<double>(counts.sum) / units));
  Sample(metric, "_count", labels, "", Cat(count));
}

}  // namespace kerf::metrics
