// The flags of `kerf analyze`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "kernels/registry.h"

namespace kerf::agent {

struct AnalyzeFlags {
  std::vector<std::string> paths;
  std::vector<std::string> excludes;
  std::vector<std::string> algorithms;
  std::vector<std::string> averages = {"4K", "8K", "16K", "32K", "64K"};
  std::vector<std::string> profiles;
  std::string digest = "blake3";
  std::string backend = std::string(kAutomaticBackend);
  std::string max_bytes = "1G";
  std::string index_memory = "12G";
  std::string plot;
  std::uint64_t seed = 1;
  double min_share = 0.5;
};

void AddAnalyzeVerb(Context& context, ExitCode (*run)(Context&, const AnalyzeFlags&));

}  // namespace kerf::agent
