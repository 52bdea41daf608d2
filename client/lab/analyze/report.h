// The analysis as lines for people and as objects for programs (docs/json.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/lab/analyze/analysis.h"

namespace kerf::agent::analyze {

// What was read, the baseline, a table for each wanted average, the parts, the recommendation.
// Names of parts are printed with what a terminal cannot show escaped.
std::vector<std::string> ReportLines(const Corpus& corpus, const AnalysisOptions& options,
                                     const Analysis& analysis);

// The keys of one "figure", of the "recommendation", of the "part" of that number, and of the
// "summary".
nlohmann::json FigureJson(const ProfileFigures& figures);
nlohmann::json RecommendationJson(const Analysis& analysis);
nlohmann::json PartJson(const Corpus& corpus, const Analysis& analysis, std::size_t part);
nlohmann::json SummaryJson(const Corpus& corpus, const Analysis& analysis);

}  // namespace kerf::agent::analyze
