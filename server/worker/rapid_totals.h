// What hints have saved, of all streams of a process.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/rapid/rapid_cutter.h"

namespace kerf {

// Thread-safe. A stream adds what it has cut when it ends.
struct RapidTotals {
  // As of RapidCounters.
  std::atomic<std::uint64_t> hints_accepted{0};
  std::atomic<std::uint64_t> hints_rejected{0};
  std::atomic<std::uint64_t> hints_absent{0};
  std::atomic<std::uint64_t> hints_late{0};
  std::atomic<std::uint64_t> bytes_scanned{0};
  std::atomic<std::uint64_t> bytes_skipped{0};
  // Round trips to the index for verdicts, and batches of chunks whose verdicts were there already.
  std::atomic<std::uint64_t> lookups_asked{0};
  std::atomic<std::uint64_t> lookups_foreseen{0};
  // Digests that were looked up before their chunks had come.
  std::atomic<std::uint64_t> digests_asked_ahead{0};

  void Add(const RapidCounters& counters) {
    const auto add = [](std::atomic<std::uint64_t>& total, std::uint64_t count) {
      total.fetch_add(count, std::memory_order_relaxed);
    };
    add(hints_accepted, counters.hints_accepted);
    add(hints_rejected, counters.hints_rejected);
    add(hints_absent, counters.hints_absent);
    add(hints_late, counters.hints_late);
    add(bytes_scanned, counters.bytes_scanned);
    add(bytes_skipped, counters.bytes_skipped);
  }
};

}  // namespace kerf
