#include "client/cpp/failed_call.h"

#include "absl/strings/cord.h"
#include "base/strings.h"

namespace kerf::client {
namespace {

// Not ErrorInfo's word: a call that broke has none, and its id is the client's in any case.
constexpr char kPayload[] = "kerf/request-id";
constexpr char kWrongAnswer[] = "kerf/wrong-answer";

}  // namespace

absl::Status WithRequestId(const absl::Status& status, std::string_view request_id) {
  if (request_id.empty() || status.GetPayload(kPayload).has_value()) return status;
  absl::Status result = status;
  result.SetPayload(kPayload, absl::Cord(ToAbsl(request_id)));
  return result;
}

std::string RequestIdOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  return payload.has_value() ? std::string(*payload) : "";
}

absl::Status WrongAnswer(std::string_view why) {
  return AsWrongAnswer(absl::InternalError(ToAbsl(why)));
}

absl::Status AsWrongAnswer(absl::Status status) {
  status.SetPayload(kWrongAnswer, absl::Cord());
  return status;
}

bool IsWrongAnswer(const absl::Status& status) {
  return status.GetPayload(kWrongAnswer).has_value();
}

}  // namespace kerf::client
