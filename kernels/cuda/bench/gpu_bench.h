// Speeds of a GPU: copies, kernels on what lies in its memory, and everything from pinned memory to
// fingerprints, beside one core of the CPU.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/bench/gpu_bench_options.h"
#include "kernels/cuda/device/open_device.h"
#include "kernels/cuda/pipeline/left_out_plans.h"

namespace kerf::cuda {

struct GpuFigure {
  // "copy-in", "copy-out", "copy-both": pinned memory, by size. "marks" (K1), "cuts" (K2 to K5),
  // "marks+cuts", "digests" (K6): kernels alone, on one stream of random bytes. "end-to-end": all
  // of it, four batches on their way. "latency": one batch. "cpu": cut and fingerprinted by a core.
  std::string what;
  // A profile as it was asked for; empty for copies.
  std::string profile;
  // "blake3", "sha256"; empty where there are no digests.
  std::string digest;
  std::uint64_t size_bytes = 0;
  // Of marks, where it was asked for; else 0.
  std::uint32_t strip_bytes = 0;
  // Of "latency" and "end-to-end": what the batches are of ("random", "text"), and of how many
  // streams each. All else is of random bytes, and of one.
  std::string data = "random";
  std::uint32_t stream_count = 1;
  // Of one time.
  double seconds = 0;
  // Both ways together for "copy-both".
  double bytes_per_second() const { return static_cast<double>(size_bytes) / seconds; }
  // Of "end-to-end": of the fastest "copy-in" of the same run; else 0.
  double share_of_copy = 0;
};

// Calls `visit` for every figure, which is one of results that were compared with the CPU's before.
// InvalidArgument: no kernels for a profile. DataLoss: the device differs from the CPU, and where.
// Cancelled: `cancelled` became true. Of text that the device gives to the CPU there is none. Else
// the device is lost or cannot be had. Returns of which plans there are no figures of the device,
// since it cannot run them.
absl::StatusOr<LeftOutPlans> RunGpuBench(const OpenDevice& open, const GpuBenchOptions& options,
                                         const std::atomic<bool>& cancelled,
                                         const std::function<void(const GpuFigure&)>& visit);

}  // namespace kerf::cuda
