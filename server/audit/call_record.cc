#include "server/audit/call_record.h"

#include <utility>

#include "base/strings.h"
#include "kernels/fingerprint/digest.h"
#include "server/errors/errors.h"
#include "server/logging/logging.h"

namespace kerf::audit {
namespace {

constexpr std::array<std::string_view, kCountCount> kCountNames = {
    "files",     "chunks",        "new_chunks", "bytes", "commits_asked",
    "committed", "forgets_asked", "forgotten",  "epoch", "previous_epoch"};

// Of a call that nobody has said the end of.
constexpr std::string_view kNoOutcome = "UNKNOWN";

// Empty for one that there is not: a client may send any number.
std::string_view AlgorithmNameOf(int number) {
  for (const DigestAlgorithm algorithm :
       {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
    if (static_cast<int>(algorithm) == number) return DigestAlgorithmName(algorithm);
  }
  return "";
}

std::string OutcomeOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  std::string reason = ReasonNameOf(status);
  if (!reason.empty()) return reason;
  return status.code() == absl::StatusCode::kCancelled ? "CANCELLED" : "INTERNAL";
}

}  // namespace

std::shared_ptr<CallRecord> CallRecord::Begin(Sink* sink, Kind kind, CallFacts facts) {
  return std::shared_ptr<CallRecord>(new CallRecord(sink, kind, std::move(facts)));
}

void CallRecord::Refused(Sink* sink, CallFacts facts, const absl::Status& why) {
  if (sink == nullptr) return;
  Begin(sink, Kind::kRead, std::move(facts))->SetOutcome(why);
}

CallRecord::CallRecord(Sink* sink, Kind kind, CallFacts facts) : sink_(sink), kind_(kind) {
  record_.method = std::move(facts.method);
  record_.peer = std::move(facts.peer);
  record_.request_id = std::move(facts.request_id);
  record_.session = std::move(facts.session);
  record_.identity = std::move(facts.identity);
  record_.proof = std::move(facts.proof);
  record_.outcome = kNoOutcome;
  if (sink_ == nullptr) return;
  record_.worker = sink_->options().worker;
  if (kind_ == Kind::kRead) return;
  has_place_ = sink_->Reserve();
  if (!has_place_ && sink_->options().refuses) {
    admission_ = MakeError(Reason::kAuditUnavailable,
                           Cat("no call can be recorded: ", MessageOf(sink_->status())));
  }
}

CallRecord::~CallRecord() {
  if (sink_ == nullptr) return;
  Record record = MakeRecord();
  if (has_place_ && has_asked_.load()) {
    sink_->Put(MembersOf(record));
    return;
  }
  if (has_place_) sink_->Release();
  if (kind_ == Kind::kRead && record.outcome == "OK") return;
  sink_->PutMinor(MembersOf(record), record.outcome);
}

Record CallRecord::MakeRecord() {
  Record record;
  {
    const std::lock_guard lock(mutex_);
    record = std::move(record_);
  }
  record.unix_ms = sink_->options().wall_clock_ms();
  for (std::size_t index = 0; index < kCountCount; ++index) {
    record.counts.emplace_back(kCountNames[index], counts_[index].load());
  }
  return record;
}

void CallRecord::SetCaller(std::string_view identity, std::string_view proof) {
  const std::lock_guard lock(mutex_);
  record_.identity = identity;
  record_.proof = proof;
}

void CallRecord::SetRepository(std::string_view name, int digest_algorithm) {
  const std::lock_guard lock(mutex_);
  // More is not shown; a peer may send megabytes.
  record_.repository = name.substr(0, kMaxTextBytes + 1);
  record_.digest_algorithm = AlgorithmNameOf(digest_algorithm);
}

void CallRecord::SetOpen(std::string_view repository, int digest_algorithm,
                         std::string_view profile, std::string_view agent) {
  const std::lock_guard lock(mutex_);
  record_.repository = repository.substr(0, kMaxTextBytes + 1);
  record_.digest_algorithm = AlgorithmNameOf(digest_algorithm);
  record_.profile = profile.substr(0, kMaxTextBytes + 1);
  record_.agent = agent.substr(0, kMaxTextBytes + 1);
  if (!IsLogged(LogLevel::kDebug)) return;
  Log(LogLevel::kDebug, "stream opened",
      {{"session", record_.session},
       {"request_id", record_.request_id},
       {"repository", record_.repository},
       {"profile", record_.profile},
       {"agent", record_.agent}});
}

std::string CallRecord::repository() const {
  const std::lock_guard lock(mutex_);
  return record_.repository;
}

std::string CallRecord::agent() const {
  const std::lock_guard lock(mutex_);
  return record_.agent;
}

void CallRecord::SetOutcome(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(has_outcome_, true)) return;
  record_.outcome = OutcomeOf(status);
  if (!status.ok()) record_.message = MessageOf(status).substr(0, kMaxTextBytes + 1);
}

}  // namespace kerf::audit
