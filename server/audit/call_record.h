// One call, from its beginning to its end, as the audit log and the log tell of it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/audit/record.h"
#include "server/audit/sink.h"

namespace kerf::audit {

// What is known of a call when it comes.
struct CallFacts {
  std::string method = {};
  std::string peer = {};
  std::string request_id = {};
  std::string session = {};
  // Empty, and "none": nobody knows, yet.
  std::string identity = {};
  std::string proof = "none";
};

// What is counted. Whoever asks for a change counts it before, and what has become of it behind:
// where nobody waited for the answer, the two differ, and the change may have been made.
enum class Count : std::uint8_t {
  kFiles,
  kChunks,
  kNewChunks,
  kBytes,
  kCommitsAsked,
  kCommitted,
  kForgetsAsked,
  kForgotten,
  kEpoch,
  kPreviousEpoch,
};
inline constexpr std::size_t kCountCount = static_cast<std::size_t>(Count::kPreviousEpoch) + 1;

// Thread-safe. It has no record in the audit log before its last owner lets go of it: until then
// something may still be done for the call, also when its client has been answered.
class CallRecord {
 public:
  enum class Kind : std::uint8_t {
    // May change something: there is a place for its record before it begins.
    kChange,
    // Changes nothing: it is told of only if it does not end well.
    kRead,
  };

  // `sink` outlives it; null: there is no audit log, and it is of use for the log alone.
  static std::shared_ptr<CallRecord> Begin(Sink* sink, Kind kind, CallFacts facts);
  // A call that is not taken.
  static void Refused(Sink* sink, CallFacts facts, const absl::Status& why);
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;
  ~CallRecord();

  // Not OK: AUDIT_UNAVAILABLE; the call is to be refused, for nobody could tell of it.
  const absl::Status& admission() const { return admission_; }

  // Once it is known.
  void SetCaller(std::string_view identity, std::string_view proof);
  // As a client has said it: it may be anything, and is cut where it is too long.
  // `digest_algorithm` is kerf.v1.DigestAlgorithm's number.
  void SetRepository(std::string_view name, int digest_algorithm);
  // The same of a stream; kerfd's log tells of it.
  void SetOpen(std::string_view repository, int digest_algorithm, std::string_view profile,
               std::string_view agent);
  // For kerfd's log.
  std::string repository() const;
  std::string agent() const;
  // The first one counts.
  void SetOutcome(const absl::Status& status);

  // The index is about to be asked to change something.
  void Ask() { has_asked_.store(true, std::memory_order_relaxed); }
  // The same of `count` things.
  void AskFor(Count what, std::uint64_t count) {
    Add(what, count);
    Ask();
  }

  void Add(Count what, std::uint64_t count) {
    counts_[static_cast<std::size_t>(what)].fetch_add(count, std::memory_order_relaxed);
  }
  std::uint64_t count(Count what) const {
    return counts_[static_cast<std::size_t>(what)].load(std::memory_order_relaxed);
  }

 private:
  CallRecord(Sink* sink, Kind kind, CallFacts facts);

  Record MakeRecord();

  Sink* const sink_;
  const Kind kind_;
  bool has_place_ = false;
  absl::Status admission_;
  std::atomic<bool> has_asked_{false};
  std::array<std::atomic<std::uint64_t>, kCountCount> counts_{};
  mutable std::mutex mutex_;
  bool has_outcome_ = false;
  Record record_;
};

}  // namespace kerf::audit
