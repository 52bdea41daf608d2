#include "client/cpp/name_lookup.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace kerf::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kCancellationPoll{50};

std::atomic<int> lookup_count = 0;

// Of the one who asks and of the thread that is asked: whoever is done last frees it.
struct Lookup {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  Addresses found;
};

void Resolve(const std::shared_ptr<Lookup>& lookup, const std::string& host,
             const std::string& port, const Resolver& resolver) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  Addresses found(resolver(host.c_str(), port.c_str(), &hints, &raw) == 0 ? raw : nullptr);
  --lookup_count;
  const std::lock_guard lock(lookup->mutex);
  lookup->found = std::move(found);
  lookup->is_done = true;
  lookup->changed.notify_all();
}

// Nobody is asked for them.
Addresses OfNumbers(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  return Addresses(getaddrinfo(host.c_str(), port.c_str(), &hints, &raw) == 0 ? raw : nullptr);
}

}  // namespace

Addresses LookUpName(const std::string& host, const std::string& port, milliseconds patience,
                     const CallCancellation* cancellation, const Resolver& resolver) {
  if (Addresses known = OfNumbers(host, port); known != nullptr) return known;
  if (++lookup_count > kMaxLookups) {
    --lookup_count;
    return nullptr;
  }
  const auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, host, port, resolver] { Resolve(lookup, host, port, resolver); }).detach();
  } catch (const std::system_error&) {
    // There is no thread for it.
    --lookup_count;
    return nullptr;
  } catch (...) {
    --lookup_count;
    throw;
  }
  const auto deadline = steady_clock::now() + patience;
  std::unique_lock lock(lookup->mutex);
  while (!lookup->is_done && (cancellation == nullptr || !cancellation->cancelled())) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) break;
    lookup->changed.wait_for(lock, std::min(left, kCancellationPoll));
  }
  return std::move(lookup->found);
}

}  // namespace kerf::client
