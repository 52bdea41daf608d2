// Which devices the plug-in of PTX has, and what is wrong with each: a text, for tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda::ptx {

struct ListedDevice {
  // Of the order of threads and blocks.
  std::uint64_t seed = 1;
  // What a block may have.
  std::size_t shared_bytes = kMaxSharedBytes;
  // What the kernels take to be ready.
  std::chrono::milliseconds load_time{0};
  Fault fault;
  // Of FaultyDevice.
  std::function<bool()> is_armed;
};

// Devices are separated by ';', and what is said of one by ','; nothing said is one that is well:
//
//   seed=N           another order of threads
//   shared=BYTES     a block has so much shared memory
//   load_ms=MS       until its kernels are ready
//   refuses=KERNEL   cannot run that one of kernel_list.h, by the name of its type
//   fault=KIND       lost, silent, hangs, wrong, wrong-digest or slow (Fault::Kind)
//   call=N           from this call on
//   delay_ms=MS      of one that is slow
//   armed=PATH       calls are counted from when there is such a file
//
// InvalidArgument: says what cannot be read.
absl::StatusOr<std::vector<ListedDevice>> ReadDeviceList(std::string_view text);

}  // namespace kerf::cuda::ptx
