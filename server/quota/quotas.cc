#include "server/quota/quotas.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/metrics/catalog.h"

namespace kerf {
namespace {

constexpr std::array<std::string_view, 4> kKindNames = {"streams", "calls", "bytes", "entries"};

std::uint64_t ThreeQuartersOf(std::size_t count) {
  return std::max<std::uint64_t>(1, count * 3 / 4);
}

std::string SubjectOf(std::string_view repository) { return Cat("repository '", repository, "'"); }

}  // namespace

absl::Status Quotas::Exceeded(QuotaKind kind, std::string_view subject,
                              std::string_view description, std::chrono::milliseconds retry_after) {
  CountExceeded(kind);
  return QuotaExceeded(subject, description, retry_after);
}

absl::StatusOr<Places::Hold> Quotas::EnterStream(const access::Identity& caller,
                                                 std::size_t all_count) {
  if (caller.name.empty()) return Places::Hold();
  const std::uint64_t limit =
      gate_.QuotaOf(caller).max_streams.value_or(ThreeQuartersOf(all_count));
  if (auto hold = streams_.Enter(caller.name, limit)) return *std::move(hold);
  return Exceeded(QuotaKind::kStreams, caller.name, Cat("at most ", limit, " streams at once"),
                  limits::kRetryLater);
}

absl::StatusOr<Places::Hold> Quotas::EnterStreamOf(std::string_view repository) {
  const auto limit = gate_.QuotaOfRepository(repository).max_streams;
  if (!limit.has_value()) return Places::Hold();
  if (auto hold = repository_streams_.Enter(repository, *limit)) return *std::move(hold);
  return Exceeded(QuotaKind::kStreams, SubjectOf(repository),
                  Cat("at most ", *limit, " streams at once"), limits::kRetryLater);
}

absl::StatusOr<Places::Hold> Quotas::EnterCall(const access::Identity& caller,
                                               std::size_t all_count) {
  if (caller.name.empty()) return Places::Hold();
  const std::uint64_t limit = ThreeQuartersOf(all_count);
  auto hold = calls_.Enter(caller.name, limit);
  if (!hold.has_value()) {
    return Exceeded(QuotaKind::kCalls, caller.name,
                    Cat("at most ", limit, " calls of the index at once"), limits::kRetrySoon);
  }
  KERF_RETURN_IF_ERROR(
      CountCall(call_rates_, caller.name, caller.name, gate_.QuotaOf(caller).max_calls_per_second));
  return *std::move(hold);
}

absl::Status Quotas::CountCallOn(std::string_view repository) {
  return CountCall(repository_call_rates_, repository, SubjectOf(repository),
                   gate_.QuotaOfRepository(repository).max_calls_per_second);
}

absl::Status Quotas::CountCall(NamedRates& rates, std::string_view name, std::string_view subject,
                               std::optional<std::uint64_t> calls_per_second) {
  if (!calls_per_second.has_value()) return absl::OkStatus();
  const auto rate = static_cast<double>(*calls_per_second);
  const TimePoint now = clock_();
  if (rates.TryAdd(name, rate, rate, 1, now)) return absl::OkStatus();
  const double wait_s = (rates.At(name, rate, now) - rate) / rate;
  // A little more, so that it is time indeed.
  const std::chrono::milliseconds wait(static_cast<std::int64_t>(std::ceil(wait_s * 1000)) + 1);
  return Exceeded(QuotaKind::kCalls, subject,
                  Cat("at most ", *calls_per_second, " calls of the index a second"),
                  std::max(wait, limits::kRetrySoon));
}

bool Quotas::TryRead(const access::Identity& caller, std::string_view repository,
                     std::size_t bytes) {
  if (gate_.is_open()) return true;
  const auto amount = static_cast<double>(bytes);
  const TimePoint now = clock_();
  const auto try_one = [&](NamedRates& rates, std::string_view name, const access::Quota& quota) {
    if (!quota.max_bytes_per_second.has_value()) return true;
    const auto rate = static_cast<double>(*quota.max_bytes_per_second);
    return rates.TryAdd(name, rate, rate, amount, now);
  };
  if (!try_one(byte_rates_, caller.name, gate_.QuotaOf(caller))) return false;
  if (repository.empty() ||
      try_one(repository_byte_rates_, repository, gate_.QuotaOfRepository(repository))) {
    return true;
  }
  // Both or none.
  Correct(caller, "", -amount);
  return false;
}

void Quotas::Correct(const access::Identity& caller, std::string_view repository, double bytes) {
  if (gate_.is_open()) return;
  if (const auto rate = gate_.QuotaOf(caller).max_bytes_per_second) {
    byte_rates_.Add(caller.name, static_cast<double>(*rate), bytes, clock_());
  }
  CorrectRepository(repository, bytes);
}

void Quotas::CorrectRepository(std::string_view repository, double bytes) {
  if (gate_.is_open() || repository.empty()) return;
  if (const auto rate = gate_.QuotaOfRepository(repository).max_bytes_per_second) {
    repository_byte_rates_.Add(repository, static_cast<double>(*rate), bytes, clock_());
  }
}

std::optional<std::uint64_t> Quotas::BytesPerSecond(const access::Identity& caller,
                                                    std::string_view repository) const {
  if (gate_.is_open()) return std::nullopt;
  std::optional<std::uint64_t> rate = gate_.QuotaOf(caller).max_bytes_per_second;
  if (repository.empty()) return rate;
  const std::optional<std::uint64_t> other =
      gate_.QuotaOfRepository(repository).max_bytes_per_second;
  if (!rate.has_value() || (other.has_value() && *other < *rate)) rate = other;
  return rate;
}

void Quotas::AddMetrics(metrics::Page& page) const {
  if (gate_.is_open()) return;
  for (std::size_t kind = 0; kind < exceeded_.size(); ++kind) {
    page.Add(metrics::kQuotaExceeded, exceeded_[kind].value(), {kKindNames[kind]});
  }
}

}  // namespace kerf
