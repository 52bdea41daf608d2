// The picture of an analysis with its figures, as a page that needs nothing but itself.
#pragma once

#include <string>
#include <string_view>

#include "client/lab/analyze/analysis.h"

namespace kerf::agent::analyze {

// `picture` is an <svg>. The figures are there twice: as a table, and as JSON in the element
// #figures, each as `kerf analyze --json` prints it.
std::string PlotPage(const Analysis& analysis, std::string_view picture);

}  // namespace kerf::agent::analyze
