// What `kerf bench kernels` measures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::bench {

struct KernelOptions {
  // Profiles; digest algorithms, "DIGEST/N" for calls of N chunks; "PROFILE+DIGEST" for both in one
  // pass over memory (backend "fused") and one after the other ("apart"). Empty: each algorithm
  // once, at about 8 KiB a chunk, and the default of both.
  std::vector<std::string> algorithms;
  // Empty: every one that runs here.
  std::string backend;
  // What is read from memory: several times the last-level cache.
  std::uint64_t size_bytes = std::uint64_t{256} << 20;
  // "random", "text", "zeros".
  std::vector<std::string> data = {"random"};
  // Each figure is the best of so many.
  std::uint32_t rounds = 5;
};

}  // namespace kerf::bench
