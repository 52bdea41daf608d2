// What a worker has done between two looks at its counters, which are of an untrusted server.
#pragma once

#include <cstdint>
#include <optional>

#include "client/agent/top/worker_look.h"

namespace kerf::agent {

struct Activity {
  double ingest_bytes_per_second = 0;
  double chunks_per_second = 0;
  // Of files, in answered chunks.
  std::uint64_t chunk_bytes = 0;
  std::uint64_t duplicate_bytes = 0;
  // Ends of chunks that hints were asked for, and those that they gave.
  std::uint64_t hints = 0;
  std::uint64_t hints_accepted = 0;

  // Of the bytes; nothing without any.
  std::optional<double> duplicate_share() const;
  std::optional<double> hint_share() const;

  // Of several workers together.
  void Add(const Activity& other);
};

// Nothing if there is no earlier look (null), or one of both has no counts. A process that was
// started since is counted from its start.
std::optional<Activity> ActivityBetween(const WorkerLook* before, const WorkerLook& now);

}  // namespace kerf::agent
