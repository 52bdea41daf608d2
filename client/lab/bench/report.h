// A benchmark's result for programs and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/lab/bench/service_bench.h"
#include "client/lab/bench/service_options.h"

namespace kerf::bench {

// All of it. What is not known is null.
nlohmann::json ReportJson(const ServiceOptions& options, const ServiceResult& result);

// A table, line by line.
std::vector<std::string> ReportLines(const ServiceOptions& options, const ServiceResult& result);

}  // namespace kerf::bench
