// What `kerf top` shows, to people and to programs. Names and words of servers are made harmless to
// terminals.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/agent/top/worker_look.h"

namespace kerf::agent {

// Headings, a line for each worker, one for all of several, and below them what is wrong with whom.
// `before` has the looks of an interval ago, in any order: without one of a worker its rates are
// not known.
std::vector<std::string> TopTable(const WorkerLooks& now, const WorkerLooks& before);

// As much of the lines as there is room for; the last row says how many more there are.
std::vector<std::string> FitTo(std::vector<std::string> lines, std::size_t rows,
                               std::size_t columns);

// One worker, for programs.
nlohmann::json TopJson(const WorkerLook& now, const WorkerLook* before);

}  // namespace kerf::agent
