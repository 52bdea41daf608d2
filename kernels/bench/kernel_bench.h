// `kerf bench kernels`: cutting and fingerprinting on one core, as a share of what the same core
// can read in the same run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/bench/kernel_options.h"

namespace kerf::bench {

// One figure. Bytes a second are those of the input, also where a rule skips most of it.
struct KernelFigure {
  // As it was asked for: "ram-8k".
  std::string name;
  // A profile in canonical form, or a digest algorithm.
  std::string algorithm;
  std::string backend;
  // "dram": options.size_bytes, read once a pass. "l2": kCachedBytes, read again and again.
  std::string source;
  std::string data;
  double bytes_per_second = 0;
  // Of loading every byte once, by the fastest of several ways, measured by turns with the kernel.
  double ceiling_bytes_per_second = 0;
  double average_chunk_bytes = 0;
  double share_of_ceiling() const { return bytes_per_second / ceiling_bytes_per_second; }
};

// Stays in the second-level cache of a server's core.
inline constexpr std::uint64_t kCachedBytes = 512 << 10;
// Fingerprints are of chunks of this size.
inline constexpr std::uint64_t kHashedChunkBytes = 8 << 10;
// So many by one call, as a worker hashes them.
inline constexpr std::size_t kHashedBatchChunks = 64;
// What of the input is compared with the reference, before the clock starts.
inline constexpr std::uint64_t kCheckedBytes = 4 << 20;

// Calls `visit` for every figure. InvalidArgument: no such algorithm, backend or kind of data, or
// the backend implements none of them; DataLoss: a backend differs from the reference, and which;
// Cancelled: `cancelled` became true.
absl::Status RunKernelBench(const KernelOptions& options, const std::atomic<bool>& cancelled,
                            const std::function<void(const KernelFigure&)>& visit);

}  // namespace kerf::bench
