// The page that Prometheus reads: its text format 0.0.4.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "server/metrics/catalog.h"
#include "server/metrics/counters.h"

namespace kerf::metrics {

inline constexpr std::string_view kPageContentType = "text/plain; version=0.0.4; charset=utf-8";

// Not thread-safe.
class Page {
 public:
  // Of the labels that the metric has in the catalogue, all and in that order.
  using LabelValues = std::initializer_list<std::string_view>;

  // All values of one metric come one after another, and each once.
  void Add(const Metric& metric, std::uint64_t value, LabelValues labels = {});
  void AddReal(const Metric& metric, double value, LabelValues labels = {});
  // So many of the histogram's units are one on the page: 1e9 for nanoseconds.
  void AddHistogram(const Metric& metric, const Histogram& histogram, double units,
                    LabelValues labels = {});

  const std::string& text() const { return text_; }

 private:
  // HELP and TYPE, unless they are there.
  void Begin(const Metric& metric, LabelValues labels);
  void Sample(const Metric& metric, std::string_view suffix, LabelValues labels,
              std::string_view bound, std::string_view value);

  std::string text_;
  // Whose values come now.
  std::string_view current_;
  std::set<std::string_view> begun_;
};

}  // namespace kerf::metrics
