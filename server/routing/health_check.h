// Asks one worker whether it serves, and who it is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "server/routing/check_schedule.h"
#include "server/routing/worker.h"

namespace kerf::routing {

struct CheckOutcome {
  CheckResult result = CheckResult::kUnreachable;
  // The name that the worker gives itself (kerfd --worker-name). Only if it answers and was asked.
  std::string name;
  // What is wrong, for a person. Empty if it serves, and only then.
  std::string why;
  // Of its index, if it answers and shares one; empty from a kerfd of 0.1.0.
  std::string index;
  // Whether it is TLS that is wrong.
  bool is_tls = false;
};

// Begins and returns; `done` is called once, on a thread of gRPC, after `timeout` at the latest,
// and maybe before this returns.
void StartHealthCheck(const std::shared_ptr<Worker>& worker, bool ask_for_name,
                      std::chrono::milliseconds timeout,
                      std::function<void(CheckOutcome outcome)> done);

}  // namespace kerf::routing
