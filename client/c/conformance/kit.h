// The conformance kit, which tells a driver what to do and answers its questions: one JSON object a
// line (docs/spec/conformance.md).
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::c::conformance {

using Json = nlohmann::json;

// An error by one of the kit's classes, and with a reason of protocol.md or none.
absl::Status Failure(std::string_view kind, std::string_view text, std::string_view reason = "");
// What the kit is told of one.
Json ToldOf(const absl::Status& failure);

std::string Base64Of(std::string_view bytes);
std::string FromBase64(const Json& text);
std::string HexText(std::string_view bytes);
std::string FromHex(const Json& text);

// Standard input and output.
class Kit {
 public:
  // What is to be done next; nothing at the end.
  std::optional<Json> Next();
  void Say(const Json& said);
  // The answer, or a failure of class `store`. Thread-safe.
  absl::StatusOr<Json> Ask(const Json& question);

 private:
  std::mutex asking_;
};

}  // namespace kerf::c::conformance
