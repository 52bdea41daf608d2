// What can be set of cutting and fingerprinting, on the CPU and on GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cli/option_set.h"
#include "base/units.h"

namespace kerf {

struct WorkerSettings {
  // Names this process to clients; that of the machine.
  std::string name;
  // 0: one for each core.
  std::uint32_t thread_count = 0;
  // Of the kernels that cut: kAutomaticBackend or a name. Whether there is one is not checked here.
  std::string backend;
};

// Also sets the defaults that are found out: the machine's name, and the backend.
void AddWorkerSettings(OptionSet& options, WorkerSettings& settings);

// Whether files are cut by GPUs.
enum class GpuUse : std::uint8_t {
  kOff,
  // If there is one.
  kAuto,
  // Or kerfd does not start.
  kRequire,
};

// That a kerfd uses.
inline constexpr std::size_t kMostGpus = 64;

// A piece for a GPU, at most: much enough for the streams that are busy to fill its batches. Where
// one chunk may be larger than half of it, a piece may have twice that.
inline constexpr std::size_t kGpuPieceBytes = 2 * kMiB;

struct GpuSettings {
  GpuUse use = GpuUse::kAuto;
  // Empty: libkerf_cuda.so beside kerfd.
  std::string plugin;
  // As the system counts them; empty: all.
  std::vector<std::uint32_t> devices;
  // Of each.
  std::uint64_t memory_bytes = 256 * kMiB;
  // Smaller pieces are the CPU's; nullopt: measured at start.
  std::optional<std::uint64_t> min_piece_bytes;
  // When one is lost, drain and end, so that whoever started kerfd starts it anew.
  bool ends_without = false;
};

void AddGpuSettings(OptionSet& options, GpuSettings& settings);

}  // namespace kerf
