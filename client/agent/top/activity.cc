#include "client/agent/top/activity.h"

#include <algorithm>

namespace kerf::agent {
namespace {

// Never past 0, whatever a server says.
std::uint64_t Since(std::uint64_t now, std::uint64_t before) { return now - std::min(now, before); }

std::uint64_t ChunksOf(const v1::WorkerCounts& counts) {
  return counts.new_chunk_count() + counts.duplicate_chunk_count() +
         counts.unverified_chunk_count();
}

std::uint64_t BytesOf(const v1::WorkerCounts& counts) {
  return counts.new_byte_count() + counts.duplicate_byte_count() + counts.unverified_byte_count();
}

std::uint64_t HintsOf(const v1::WorkerCounts& counts) {
  return counts.hints_accepted_count() + counts.hints_rejected_count() +
         counts.hints_absent_count() + counts.hints_late_count();
}

std::optional<double> ShareOf(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

bool HasCounts(const WorkerLook& look) {
  return look.status.has_value() && look.status->has_counts();
}

}  // namespace

std::optional<double> Activity::duplicate_share() const {
  return ShareOf(duplicate_bytes, chunk_bytes);
}

std::optional<double> Activity::hint_share() const { return ShareOf(hints_accepted, hints); }

void Activity::Add(const Activity& other) {
  ingest_bytes_per_second += other.ingest_bytes_per_second;
  chunks_per_second += other.chunks_per_second;
  chunk_bytes += other.chunk_bytes;
  duplicate_bytes += other.duplicate_bytes;
  hints += other.hints;
  hints_accepted += other.hints_accepted;
}

std::optional<Activity> ActivityBetween(const WorkerLook* before, const WorkerLook& now) {
  if (before == nullptr || !HasCounts(*before) || !HasCounts(now)) return std::nullopt;
  const v1::WorkerCounts& counts = now.status->counts();
  const v1::WorkerCounts none;
  const bool is_same = before->status->counts().uptime_ms() <= counts.uptime_ms();
  const v1::WorkerCounts& old = is_same ? before->status->counts() : none;
  // The worker's own clock: what the question took on its way makes no difference.
  const std::uint64_t ms = Since(counts.uptime_ms(), old.uptime_ms());
  if (ms == 0) return std::nullopt;
  const double seconds = static_cast<double>(ms) / 1000;
  const auto rate = [&](std::uint64_t count) { return static_cast<double>(count) / seconds; };
  Activity activity;
  activity.ingest_bytes_per_second =
      rate(Since(counts.ingest_byte_count(), old.ingest_byte_count()));
  activity.chunks_per_second = rate(Since(ChunksOf(counts), ChunksOf(old)));
  activity.chunk_bytes = Since(BytesOf(counts), BytesOf(old));
  activity.duplicate_bytes = Since(counts.duplicate_byte_count(), old.duplicate_byte_count());
  activity.hints = Since(HintsOf(counts), HintsOf(old));
  activity.hints_accepted = Since(counts.hints_accepted_count(), old.hints_accepted_count());
  return activity;
}

}  // namespace kerf::agent
