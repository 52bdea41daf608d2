#include "server/net/name_resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/strings.h"

namespace kerf {
namespace {

using std::chrono::steady_clock;

// A name is looked up anew for each attempt to connect, for a pod that comes back has another
// address.
constexpr std::chrono::seconds kFresh{1};

bool IsNumber(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

absl::Status HasNone(const std::string& host) {
  return absl::UnavailableError(ToAbsl(Cat("the name '", host, "' has no address")));
}

}  // namespace

absl::StatusOr<HostAddresses> LookUpHostInSystem(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        ToAbsl(Cat("the name '", host, "' has no address: ", gai_strerror(error))));
  }
  HostAddresses addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  freeaddrinfo(found);
  return addresses;
}

struct NameResolver::Shared {
  struct Lookup {
    bool is_under_way = false;
    // Somebody has been given the answer.
    bool is_taken = false;
    std::optional<absl::StatusOr<HostAddresses>> answer;
    steady_clock::time_point ended;
  };

  LookUpHost look_up;
  std::mutex mutex;
  std::map<std::string, Lookup> lookups;
};

NameResolver::NameResolver(LookUpHost look_up) : shared_(std::make_shared<Shared>()) {
  shared_->look_up = std::move(look_up);
}

NameResolver::~NameResolver() = default;

std::optional<absl::StatusOr<HostAddresses>> NameResolver::Find(const std::string& host) {
  if (IsNumber(host)) return HostAddresses{host};
  const std::lock_guard lock(shared_->mutex);
  Shared::Lookup& lookup = shared_->lookups[host];
  if (lookup.is_under_way) return std::nullopt;
  // Whoever asks in turn with nodes that cannot be reached comes back after seconds: an answer that
  // were too old by then, each time, would never be of use.
  if (lookup.answer.has_value() &&
      (!lookup.is_taken || steady_clock::now() - lookup.ended < kFresh)) {
    lookup.is_taken = true;
    return lookup.answer;
  }
  lookup.is_under_way = true;
  try {
    std::thread([shared = shared_, host] {
      absl::StatusOr<HostAddresses> answer = shared->look_up(host);
      if (answer.ok() && answer->empty()) answer = HasNone(host);
      const std::lock_guard its_lock(shared->mutex);
      shared->lookups[host] = {false, false, std::move(answer), steady_clock::now()};
    }).detach();
  } catch (const std::system_error& error) {
    lookup = {false, true,
              absl::UnavailableError(
                  ToAbsl(Cat("no thread can be started to look up '", host, "': ", error.what()))),
              steady_clock::now()};
    return lookup.answer;
  }
  return std::nullopt;
}

}  // namespace kerf
