// The figures of `kerf bench rapid` for programs and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/lab/bench/process_costs.h"
#include "client/lab/bench/rapid/rapid_bench.h"

namespace kerf::bench {

// One mode on one series.
nlohmann::json RapidFigureJson(const Series& series, const std::string& profile_name,
                               const Profile& profile, const ModeFigures& figures);

// A table of one series with one base algorithm, line by line; `all_figures` as RunRapidBench made
// them.
std::vector<std::string> RapidTable(const Series& series, const std::string& profile_name,
                                    const std::vector<ModeFigures>& all_figures);

// When and where: `version`, `date`, `machine`.
nlohmann::json RapidRunJson(const Machine& machine);
std::string RapidRunLine(const Machine& machine, const RapidOptions& options);

}  // namespace kerf::bench
