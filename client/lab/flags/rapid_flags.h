// The flags of `kerf bench rapid`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/context.h"

namespace kerf::agent {

struct RapidFlags {
  std::vector<std::string> versions;
  std::vector<std::string> profiles = {"rabin-8k", "gear-8k", "fastcdc-8k", "ram-8k"};
  std::string digest = "blake3";
  std::string size = "16M";
  std::uint32_t version_count = 3;
  // What 600, 5,000 and 20,000 are in the 500 MB of the paper: of later versions 98, 85 and 55 %
  // are duplicates.
  std::vector<std::uint64_t> edits = {20, 160, 640};
  std::uint64_t edit_bytes = 100;
  std::string kinds = "mixed";
  std::uint32_t cluster_percent = 10;
  std::string max_bytes = "4G";
  std::uint64_t seed = 1;
  std::uint32_t rounds = 3;
};

void AddBenchRapid(Context& context, const Verb& bench_verb,
                   ExitCode (*run)(Context&, const RapidFlags&));

}  // namespace kerf::agent
