#include "kernels/cuda/ptx/plugin/device_list.h"

#include <cxxabi.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <typeinfo>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda::ptx {
namespace {

constexpr std::pair<std::string_view, Fault::Kind> kFaults[] = {
    {"lost", Fault::Kind::kLost},
    {"silent", Fault::Kind::kSilent},
    {"hangs", Fault::Kind::kHangs},
    {"wrong", Fault::Kind::kWrongBits},
    {"wrong-digest", Fault::Kind::kWrongDigest},
    {"slow", Fault::Kind::kSlow}};

absl::Status Unread(std::string_view what) {
  return absl::InvalidArgumentError(ToAbsl(Cat("'", what, "' says nothing of a device")));
}

std::optional<std::uint64_t> NumberIn(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Readable(const char* type_name) {
  int status = 0;
  char* const readable = abi::__cxa_demangle(type_name, nullptr, nullptr, &status);
  std::string text = readable != nullptr ? readable : type_name;
  std::free(readable);
  return text;
}

template <class... Kernels>
std::optional<std::size_t> FindKernel(KernelTypes<Kernels...>, std::string_view name) {
  const std::string wanted = Cat("kerf::cuda::", name);
  std::size_t number = 0;
  for (const char* const type_name : {typeid(Kernels).name()...}) {
    if (Readable(type_name) == wanted) return number;
    ++number;
  }
  return std::nullopt;
}

absl::Status SetFault(std::string_view name, Fault& fault) {
  for (const auto& [known, kind] : kFaults) {
    if (known != name) continue;
    fault.kind = kind;
    return absl::OkStatus();
  }
  return Unread(Cat("fault=", name));
}

absl::Status SetRefused(std::string_view name, Fault& fault) {
  const std::optional<std::size_t> kernel = FindKernel(KernelList(), name);
  if (!kernel.has_value()) return Unread(Cat("refuses=", name));
  fault.kind = Fault::Kind::kRefuses;
  fault.kernel = *kernel;
  return absl::OkStatus();
}

// "key=value".
absl::Status Set(std::string_view said, ListedDevice& device) {
  const std::size_t sign = said.find('=');
  if (sign == std::string_view::npos) return Unread(said);
  const std::string_view key = said.substr(0, sign);
  const std::string_view value = said.substr(sign + 1);
  if (key == "fault") return SetFault(value, device.fault);
  if (key == "refuses") return SetRefused(value, device.fault);
  if (key == "armed") {
    device.is_armed = [path = std::string(value)] { return access(path.c_str(), F_OK) == 0; };
    return absl::OkStatus();
  }
  const std::optional<std::uint64_t> number = NumberIn(value);
  if (!number.has_value()) return Unread(said);
  if (key == "seed") {
    device.seed = *number;
  } else if (key == "shared") {
    device.shared_bytes = *number;
  } else if (key == "load_ms") {
    device.load_time = std::chrono::milliseconds(*number);
  } else if (key == "call") {
    device.fault.call = *number;
  } else if (key == "delay_ms") {
    device.fault.delay = std::chrono::milliseconds(*number);
  } else {
    return Unread(said);
  }
  return absl::OkStatus();
}

// Calls `each` with the parts of `text`, also with empty ones.
template <class Each>
absl::Status ForParts(std::string_view text, char separator, const Each& each) {
  while (true) {
    const std::string_view part = text.substr(0, text.find(separator));
    KERF_RETURN_IF_ERROR(each(part));
    if (part.size() == text.size()) return absl::OkStatus();
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

absl::StatusOr<std::vector<ListedDevice>> ReadDeviceList(std::string_view text) {
  std::vector<ListedDevice> devices;
  KERF_RETURN_IF_ERROR(ForParts(text, ';', [&](std::string_view said) {
    ListedDevice& device = devices.emplace_back();
    if (said.empty()) return absl::OkStatus();
    return ForParts(said, ',', [&](std::string_view part) { return Set(part, device); });
  }));
  return devices;
}

}  // namespace kerf::cuda::ptx
