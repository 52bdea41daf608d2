#include "server/routing/worker_address.h"

#include <charconv>

#include "base/strings.h"

namespace kerf::routing {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kGroupPrefix = "dns:";
constexpr int kMaxPort = 65'535;

absl::Status Malformed(std::string_view text) {
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text,
                 "' is no address of workers: want HOST:PORT, unix:PATH, or "
                 "dns:HOST:PORT for all addresses of HOST")));
}

bool IsIpv6(std::string_view host) { return host.find(':') != std::string_view::npos; }

}  // namespace

absl::StatusOr<WorkerAddress> ParseWorkerAddress(std::string_view text) {
  WorkerAddress address;
  address.text = std::string(text);
  if (text.starts_with(kUnixPrefix)) {
    if (text.size() == kUnixPrefix.size()) return Malformed(text);
    return address;
  }
  std::string_view rest = text;
  address.is_group = rest.starts_with(kGroupPrefix);
  if (address.is_group) rest.remove_prefix(kGroupPrefix.size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return Malformed(text);
  std::string_view host = rest.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || is_bracketed != IsIpv6(host)) return Malformed(text);
  const std::string_view port = rest.substr(colon + 1);
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == port.data() + port.size();
  if (!is_number || address.port < 1 || address.port > kMaxPort) return Malformed(text);
  address.host = std::string(host);
  return address;
}

Endpoint EndpointOf(const WorkerAddress& one) {
  return {.address = one.text, .is_name = true, .host = one.host};
}

Endpoint EndpointOf(const WorkerAddress& group, const std::string& host_address) {
  return {.address = IsIpv6(host_address) ? Cat("[", host_address, "]:", group.port)
                                          : Cat(host_address, ":", group.port),
          .is_name = false,
          .host = group.host};
}

std::string GrpcTargetOf(const Endpoint& endpoint) {
  if (endpoint.address.starts_with(kUnixPrefix)) return endpoint.address;
  return Cat("dns:///", endpoint.address);
}

}  // namespace kerf::routing
