#include "kernels/cuda/pipeline/kernel_loading.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::cuda {

void KeepForEver(std::shared_ptr<Device> device) {
  static std::mutex mutex;
  static auto& lost = *new std::vector<std::shared_ptr<Device>>;
  const std::lock_guard lock(mutex);
  lost.push_back(std::move(device));
}

absl::StatusOr<std::unique_ptr<Device>> LoadKernels(std::unique_ptr<Device> device,
                                                    const LoadLimits& limits,
                                                    const std::function<void()>& on_slow) {
  std::promise<absl::Status> promise;
  std::future<absl::Status> loaded = promise.get_future();
  // It may live longer than this call, but not than the device, which is kept then.
  std::thread thread([raw = device.get(), promise = std::move(promise)]() mutable {
    promise.set_value(raw->LoadKernels());
  });
  std::future_status state = loaded.wait_for(std::min(limits.unnoticed, limits.most));
  if (state != std::future_status::ready && on_slow) on_slow();
  if (state != std::future_status::ready) {
    state = loaded.wait_for(limits.most - std::min(limits.unnoticed, limits.most));
  }
  if (state != std::future_status::ready) {
    thread.detach();
    KeepForEver(std::move(device));
    return absl::DeadlineExceededError(
        ToAbsl(Cat("its kernels are not ready to run after ", limits.most.count() / 1'000, " s")));
  }
  thread.join();
  if (const absl::Status status = loaded.get(); !status.ok()) {
    KeepForEver(std::move(device));
    return status;
  }
  return device;
}

absl::StatusOr<std::unique_ptr<Device>> OpenLoaded(const OpenDevice& open) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, open());
  return LoadKernels(std::move(device));
}

}  // namespace kerf::cuda
