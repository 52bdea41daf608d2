// The process of one device that runs the PTX that ships: answers, on standard input, which is a
// socket, what the plug-in asks (device_calls.h). `ptx_devices NUMBER`, of those that
// kDevicesVariable lists (device_list.h). Ends when the plug-in is gone.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/plugin/abi.h"
#include "kernels/cuda/ptx/plugin/device_calls.h"
#include "kernels/cuda/ptx/plugin/device_list.h"
#include "kernels/cuda/ptx/ptx_machine.h"

namespace kerf::cuda::ptx {
namespace {

constexpr int kSocket = STDIN_FILENO;
constexpr char kDevicesVariable[] = "KERF_PTX_DEVICES";

using Bytes = std::vector<std::uint8_t>;

PluginResult ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return PluginResult::kOk;
    case absl::StatusCode::kResourceExhausted:
      return PluginResult::kNoMemory;
    case absl::StatusCode::kUnavailable:
      return PluginResult::kNoTime;
    case absl::StatusCode::kFailedPrecondition:
      return PluginResult::kRefused;
    default:
      return PluginResult::kFailed;
  }
}

// A place in memory of this process, which the plug-in knows as a number.
std::uint8_t* AtPlace(std::uint64_t place) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<std::uint8_t*>(place);
}
std::uint64_t PlaceOf(const std::uint8_t* bytes) { return reinterpret_cast<std::uint64_t>(bytes); }

// What a call gives back.
struct Given {
  std::uint64_t number = 0;
  Bytes payload;
};

template <class Id>
absl::StatusOr<Given> NumberOf(const absl::StatusOr<Id>& id) {
  if (!id.ok()) return id.status();
  return Given{static_cast<std::uint64_t>(*id), {}};
}

absl::StatusOr<Given> Nothing(const absl::Status& status) {
  if (!status.ok()) return status;
  return Given{};
}

// A device that hangs ends with who has called it.
bool IsPluginGone() {
  pollfd socket{.fd = kSocket, .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, /*timeout=*/0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP)) != 0;
}

class Server {
 public:
  explicit Server(std::size_t number) : number_(number) {}

  // Until the plug-in is gone.
  void Run() {
    Request request;
    while (ReceiveAll(kSocket, &request, sizeof request)) {
      Bytes payload(request.payload_bytes);
      if (!ReceiveAll(kSocket, payload.data(), payload.size())) return;
      const absl::StatusOr<Given> given =
          request.call == Call::kOpen ? Open() : Answer(request, payload);
      Reply reply;
      reply.result = static_cast<std::int64_t>(ResultOf(given.status()));
      std::snprintf(reply.text, sizeof reply.text, "%s",
                    std::string(MessageOf(given.status())).c_str());
      if (given.ok()) {
        reply.number = given->number;
        reply.payload_bytes = given->payload.size();
      }
      if (!SendAll(kSocket, &reply, sizeof reply)) return;
      if (given.ok() && !SendAll(kSocket, given->payload.data(), given->payload.size())) return;
    }
  }

 private:
  absl::StatusOr<Given> Open() {
    const char* const text = std::getenv(kDevicesVariable);
    KERF_ASSIGN_OR_RETURN(const auto devices, ReadDeviceList(text == nullptr ? "" : text));
    Given given{devices.size(), {}};
    if (number_ >= devices.size()) return given;
    const ListedDevice& listed = devices[number_];
    Fault fault = listed.fault;
    fault.is_released = IsPluginGone;
    EmulatedDeviceOptions options = PtxDeviceOptions(std::make_shared<PtxMachine>(listed.seed));
    options.shared_bytes = listed.shared_bytes;
    options.load_time = listed.load_time;
    auto emulated = std::make_unique<EmulatedDevice>(std::move(options));
    PluginDeviceInfo info = {};
    std::snprintf(info.name, sizeof info.name, "%s", emulated->info().name.c_str());
    info.memory_bytes = emulated->info().memory_bytes;
    given.payload.resize(sizeof info);
    std::memcpy(given.payload.data(), &info, sizeof info);
    device_ = std::make_unique<FaultyDevice>(std::move(emulated), fault, listed.is_armed);
    return given;
  }

  absl::StatusOr<Given> Answer(const Request& request, const Bytes& payload) {
    KERF_CHECK(device_ != nullptr);
    const auto queue = QueueId(request.queue);
    const auto moment = MomentId(static_cast<std::uint32_t>(request.number));
    const auto graph = GraphId(static_cast<std::uint32_t>(request.number));
    switch (request.call) {
      case Call::kLoadKernels:
        return Nothing(device_->LoadKernels());
      case Call::kAllocateArrays:
        return AllocateArrays(payload);
      case Call::kAllocatePinned:
        return AllocatePinned(request.size_bytes);
      case Call::kMakeQueue:
        return NumberOf(device_->MakeQueue());
      case Call::kCopyIn:
        return CopyIn(request, payload);
      case Call::kCopyOut:
        return CopyOut(request);
      case Call::kLaunch:
        return Nothing(device_->Launch(queue, request.number, payload));
      case Call::kMakeMoment:
        return NumberOf(device_->MakeMoment());
      case Call::kNote:
        return Nothing(device_->Note(queue, moment));
      case Call::kBetween:
        return Between(moment, MomentId(static_cast<std::uint32_t>(request.place)));
      case Call::kBeginGraph:
        return Nothing(device_->BeginGraph(queue));
      case Call::kEndGraph:
        return NumberOf(device_->EndGraph(queue));
      case Call::kCancelGraph:
        return Nothing(device_->CancelGraph(queue));
      case Call::kRunGraph:
        return Nothing(device_->RunGraph(queue, graph));
      case Call::kDropGraph:
        return Nothing(device_->DropGraph(graph));
      case Call::kIsDone:
        return IsDone(request.queue);
      case Call::kOpen:
        break;
    }
    KERF_CHECK(false);
  }

  absl::StatusOr<Given> AllocateArrays(const Bytes& payload) {
    std::vector<std::size_t> sizes_bytes(payload.size() / sizeof(std::uint64_t));
    std::memcpy(sizes_bytes.data(), payload.data(), payload.size());
    KERF_ASSIGN_OR_RETURN(const auto arrays, device_->AllocateArrays(sizes_bytes));
    Given given{0, Bytes(payload.size())};
    std::memcpy(given.payload.data(), static_cast<const void*>(arrays.data()), payload.size());
    return given;
  }

  absl::StatusOr<Given> AllocatePinned(std::size_t size_bytes) {
    KERF_ASSIGN_OR_RETURN(const auto pinned, device_->AllocatePinned(size_bytes));
    return Given{PlaceOf(pinned.data()), {}};
  }

  // Earlier than by a GPU, which reads pinned memory when the command runs.
  absl::StatusOr<Given> CopyIn(const Request& request, const Bytes& payload) {
    const std::span<std::uint8_t> pinned(AtPlace(request.number), payload.size());
    std::copy(payload.begin(), payload.end(), pinned.begin());
    return Nothing(device_->CopyIn(QueueId(request.queue), AtPlace(request.place), pinned));
  }

  absl::StatusOr<Given> CopyOut(const Request& request) {
    const std::span<std::uint8_t> pinned(AtPlace(request.number), request.size_bytes);
    KERF_RETURN_IF_ERROR(device_->CopyOut(QueueId(request.queue), pinned, AtPlace(request.place)));
    copied_out_[request.queue].push_back(pinned);
    return Given{};
  }

  absl::StatusOr<Given> Between(MomentId from, MomentId to) {
    KERF_ASSIGN_OR_RETURN(const auto time, device_->Between(from, to));
    return Given{static_cast<std::uint64_t>(time.count()), {}};
  }

  absl::StatusOr<Given> IsDone(std::uint32_t queue) {
    KERF_ASSIGN_OR_RETURN(const bool is_done, device_->IsDone(QueueId(queue)));
    Given given{is_done ? 1u : 0u, {}};
    if (!is_done) return given;
    for (const auto pinned : std::exchange(copied_out_[queue], {})) {
      given.payload.insert(given.payload.end(), pinned.begin(), pinned.end());
    }
    return given;
  }

  const std::size_t number_;
  std::unique_ptr<Device> device_;
  // By queue, since it was done last.
  std::map<std::uint32_t, std::vector<std::span<const std::uint8_t>>> copied_out_;
};

}  // namespace
}  // namespace kerf::cuda::ptx

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  kerf::cuda::ptx::Server(std::strtoul(argv[1], nullptr, 10)).Run();
  return 0;
}
