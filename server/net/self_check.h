// Whether kerfd still takes connections where it listens: it asks itself, as a client would.
// gRPC's listener does not come back from a moment without file descriptors (1.51), and nothing
// else of kerfd notices.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/net/serving_settings.h"

namespace kerf {

class TlsContext;

struct SelfCheckOptions {
  // Each as GrpcListener::addresses gives it.
  std::vector<std::string> addresses;
  // A client's, which the server takes; null: it serves in the clear.
  std::shared_ptr<const TlsContext> tls = nullptr;
  // Between two looks at all of them.
  std::chrono::milliseconds interval{5'000};
  // For one to answer.
  std::chrono::milliseconds timeout{3'000};
  // Of looks that fail, without one that does not: only a new start helps then.
  std::chrono::milliseconds hopeless_after{30'000};
};

// As kerfd is told to look (--self-check-ms).
SelfCheckOptions SelfCheckOptionsOf(const ServingSettings& settings,
                                    std::vector<std::string> addresses,
                                    std::shared_ptr<const TlsContext> tls);

// A look is a new connection to each address, and a health call through it: any health will do.
// Thread-safe.
class SelfCheck {
 public:
  // Looks at once, and from then on.
  explicit SelfCheck(SelfCheckOptions options);
  SelfCheck(const SelfCheck&) = delete;
  SelfCheck& operator=(const SelfCheck&) = delete;
  // Waits for a look that is under way.
  ~SelfCheck();

  // No look begins any more, and all is well from here on: who listens is about to end.
  void Stop();

  // Not OK: why new clients are not answered, and were not at the last two looks.
  absl::Status readiness() const;
  // Not OK: why they will not be any more.
  absl::Status liveness() const;

 private:
  void Run(const std::stop_token& stop);
  absl::Status Look(const std::stop_token& stop);
  void Note(const absl::Status& status);
  bool IsLostLocked() const;

  const SelfCheckOptions options_;

  mutable std::mutex mutex_;
  bool is_stopped_ = false;
  // Of the last look.
  absl::Status status_;
  // In a row, and since when.
  int failure_count_ = 0;
  std::chrono::steady_clock::time_point failing_since_;

  // Last: it uses all of them.
  std::jthread thread_;
};

}  // namespace kerf
