// The addresses of a host, of whoever may have to end the asking.
#pragma once

#include <netdb.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "client/cpp/call_cancellation.h"

namespace kerf::client {

struct AddressesFree {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesFree>;

// As getaddrinfo. Any thread calls it, also when nobody waits for it any more.
using Resolver =
    std::function<int(const char* host, const char* port, const addrinfo* hints, addrinfo** found)>;

// For streams of bytes. Null: there are none, nobody has said so within `patience`, `cancellation`
// (null: nobody's) has come, or too many that were asked for before are still not known.
// getaddrinfo cannot be ended, and waits half a minute for a name server that does not answer: a
// thread of its own does, and is left behind. Thread-safe.
Addresses LookUpName(const std::string& host, const std::string& port,
                     std::chrono::milliseconds patience, const CallCancellation* cancellation,
                     const Resolver& resolver = getaddrinfo);

// Threads that may be left behind at once.
inline constexpr int kMaxLookups = 8;

}  // namespace kerf::client
