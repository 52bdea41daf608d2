// The analysis as a picture: savings over the average chunk, and savings over speed.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/lab/analyze/analysis.h"

namespace kerf::agent::analyze {

enum class PlotFormat : std::uint8_t {
  kSvg,
  // A page with the picture and its figures, as a table and as JSON; nothing is fetched for it.
  kHtml,
};

// By the end of the file's name. InvalidArgument says which there are.
absl::StatusOr<PlotFormat> PlotFormatOf(std::string_view file);

// The file's bytes.
std::string Plot(const Corpus& corpus, const AnalysisOptions& options, const Analysis& analysis,
                 PlotFormat format);

}  // namespace kerf::agent::analyze
