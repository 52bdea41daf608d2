// What each identity and each repository may use of this kerfd, by the rules of --access
// (docs/spec/access.md, "Quotas").
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/places.h"
#include "server/access/gate.h"
#include "server/access/identity.h"
#include "server/metrics/counters.h"
#include "server/metrics/page.h"
#include "server/net/clock.h"
#include "server/quota/rates.h"

namespace kerf {

// What was wanted beyond a quota, as metrics have it.
enum class QuotaKind : std::uint8_t { kStreams, kCalls, kBytes, kEntries };

// Of whom nobody asks who he is there are none. Rates let by what one second of them is good for at
// once. Thread-safe.
class Quotas {
 public:
  // Both outlive it, and it outlives what it gives.
  Quotas(const access::Gate* gate, const Clock* clock) : gate_(*gate), clock_(*clock) {}
  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;

  // A place for an upload: of all_count places an identity has three quarters at most, unless its
  // rules say another number, so that others find one. QUOTA_EXCEEDED.
  absl::StatusOr<Places::Hold> EnterStream(const access::Identity& caller, std::size_t all_count);
  // The same in a repository, which has as many as there are unless its rules say a number.
  absl::StatusOr<Places::Hold> EnterStreamOf(std::string_view repository);

  // A place for a call of the index, as for an upload; it counts for the rate of calls.
  absl::StatusOr<Places::Hold> EnterCall(const access::Identity& caller, std::size_t all_count);
  // The call is about that repository: QUOTA_EXCEEDED, or it counts for its rate, too.
  absl::Status CountCallOn(std::string_view repository);

  // Whether a message of an upload, of about that size, may be read now; then it counts. An empty
  // repository: it is not known yet.
  bool TryRead(const access::Identity& caller, std::string_view repository, std::size_t bytes);
  // Of these was so much more read than was counted, or less.
  void Correct(const access::Identity& caller, std::string_view repository, double bytes);
  // The repository has become known behind so much.
  void CorrectRepository(std::string_view repository, double bytes);

  // The lower one of both rates, as of now; nothing: there is none. An empty repository: not known.
  std::optional<std::uint64_t> BytesPerSecond(const access::Identity& caller,
                                              std::string_view repository) const;

  // Of a repository at once; nothing: no bound.
  std::optional<std::uint64_t> MaxEntriesOf(std::string_view repository) const {
    return gate_.QuotaOfRepository(repository).max_entries;
  }

  void CountExceeded(QuotaKind kind) { exceeded_[static_cast<std::size_t>(kind)].Add(); }
  void AddMetrics(metrics::Page& page) const;

 private:
  using NamedRates = Rates<std::string>;
  // That are remembered because they were used lately.
  static constexpr std::size_t kMaxNames = 16'384;

  absl::Status Exceeded(QuotaKind kind, std::string_view subject, std::string_view description,
                        std::chrono::milliseconds retry_after);
  absl::Status CountCall(NamedRates& rates, std::string_view name, std::string_view subject,
                         std::optional<std::uint64_t> calls_per_second);

  const access::Gate& gate_;
  const Clock& clock_;
  Places streams_;
  Places repository_streams_;
  Places calls_;
  NamedRates call_rates_{kMaxNames};
  NamedRates repository_call_rates_{kMaxNames};
  NamedRates byte_rates_{kMaxNames};
  NamedRates repository_byte_rates_{kMaxNames};
  std::array<metrics::Counter, 4> exceeded_;
};

}  // namespace kerf
