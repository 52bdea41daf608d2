// What `kerf bench gpu` measures.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kerf::cuda {

struct GpuBenchOptions {
  // Profiles that there are kernels for.
  std::vector<std::string> profiles = {"gear-8k",  "fastcdc-8k",    "fastcdc2020-8k", "crc-8k",
                                       "rabin-8k", "maxp-local-8k", "mincdc-8k",      "maxcdc-8k"};
  // Of batches for kernels alone, of batches that are copied as well, and of copies alone.
  std::vector<std::size_t> kernel_bytes = {1 << 20, 16 << 20, 64 << 20, 256 << 20};
  std::vector<std::size_t> batch_bytes = {1 << 20, 4 << 20, 16 << 20, 64 << 20};
  // Of one of those: batches of text, and of several streams, too; 0: none.
  std::size_t varied_batch_bytes = 16 << 20;
  std::vector<std::size_t> copy_bytes = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20};
  // Of a thread of the kernels that mark; 0: as the size of the batch has it.
  std::vector<std::uint32_t> strip_bytes = {0, 128, 256, 512};
  // Each figure is the median of so many rounds of at least so much time.
  std::uint32_t rounds = 20;
  std::chrono::microseconds round_time{10'000};
  // What has not come back by then never will.
  std::chrono::milliseconds timeout{30'000};
  std::uint64_t seed = 1;
};

}  // namespace kerf::cuda
