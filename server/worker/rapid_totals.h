// What hints have saved, of all streams of a process.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/rapid/rapid_cutter.h"

namespace kerf {

// Thread-safe. A stream adds what it has cut as it goes on.
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

  // What has come since the stream had counted `before`.
  void Add(const RapidCounters& counters, const RapidCounters& before) {
    const auto add = [&](std::atomic<std::uint64_t>& total, std::uint64_t RapidCounters::* count) {
      const std::uint64_t added = counters.*count - before.*count;
      if (added != 0) total.fetch_add(added, std::memory_order_relaxed);
    };
    add(hints_accepted, &RapidCounters::hints_accepted);
    add(hints_rejected, &RapidCounters::hints_rejected);
    add(hints_absent, &RapidCounters::hints_absent);
    add(hints_late, &RapidCounters::hints_late);
    add(bytes_scanned, &RapidCounters::bytes_scanned);
    add(bytes_skipped, &RapidCounters::bytes_skipped);
  }
};

}  // namespace kerf
