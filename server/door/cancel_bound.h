// How many calls a client may cancel before they are answered. Each costs the server what a call
// costs, and the client next to nothing (CVE-2023-44487, "rapid reset"); spread over many
// connections no bound of one connection sees it, so they are counted for each address. A
// connection that breaks the rules counts as some of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>

#include "server/door/client_address.h"

namespace kerf::door {

// A bucket for each address: full in the beginning, a token out of it for each cancelled call, and
// so many back a second. Time is the caller's. Thread-safe.
class CancelBound {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    double burst = 0;
    double per_second = 0;
    // Beyond, addresses are forgotten: first those whose bucket is full again, which says nothing.
    std::size_t max_addresses = 65'536;
  };

  explicit CancelBound(const Options& options) : options_(options) {}
  CancelBound(const CancelBound&) = delete;
  CancelBound& operator=(const CancelBound&) = delete;

  // Counts `count` calls. False once the address has none left: nothing more is to be taken of it.
  bool Take(const ClientAddress::Key& address, std::size_t count, Time now);
  // Whether it has some.
  bool Has(const ClientAddress::Key& address, Time now);

  std::size_t address_count();

 private:
  struct Bucket {
    double tokens = 0;
    Time at;
  };

  double TokensAt(const Bucket& bucket, Time now) const;
  void MakeRoomLocked(const ClientAddress::Key& near, Time now);

  const Options options_;
  std::mutex mutex_;
  std::map<ClientAddress::Key, Bucket> buckets_;
  Time swept_at_;
};

}  // namespace kerf::door
