#include "client/cpp/out_of_memory.h"

#include "absl/strings/cord.h"

namespace kerf::client {
namespace {

// Not as types of messages are named, which servers send.
constexpr char kPayload[] = "kerf/out-of-memory";

}  // namespace

const absl::Status& OutOfMemory() {
  // Never destroyed: threads may end behind main.
  static const absl::Status& status = *[] {
    auto* const made = new absl::Status(absl::StatusCode::kAborted,
                                        "no memory left, or no thread could be started");
    made->SetPayload(kPayload, absl::Cord());
    return made;
  }();
  return status;
}

bool IsOutOfMemory(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

}  // namespace kerf::client
