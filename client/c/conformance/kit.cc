#include "client/c/conformance/kit.h"

#include <iostream>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "base/strings.h"

namespace kerf::c::conformance {
namespace {

constexpr char kKindPayload[] = "kit/class";
constexpr char kReasonPayload[] = "kit/reason";

std::string PayloadOf(const absl::Status& status, const char* name) {
  const auto payload = status.GetPayload(name);
  return payload.has_value() ? std::string(*payload) : "";
}

}  // namespace

absl::Status Failure(std::string_view kind, std::string_view text, std::string_view reason) {
  absl::Status status(absl::StatusCode::kUnknown, ToAbsl(text));
  status.SetPayload(kKindPayload, absl::Cord(ToAbsl(kind)));
  status.SetPayload(kReasonPayload, absl::Cord(ToAbsl(reason)));
  return status;
}

Json ToldOf(const absl::Status& failure) {
  const std::string kind = PayloadOf(failure, kKindPayload);
  return {{"class", kind.empty() ? "other" : kind},
          {"reason", PayloadOf(failure, kReasonPayload)},
          {"text", std::string(MessageOf(failure))}};
}

std::string Base64Of(std::string_view bytes) { return absl::Base64Escape(ToAbsl(bytes)); }

std::string FromBase64(const Json& text) {
  std::string bytes;
  absl::Base64Unescape(text.get<std::string>(), &bytes);
  return bytes;
}

std::string HexText(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

std::string FromHex(const Json& text) { return absl::HexStringToBytes(text.get<std::string>()); }

std::optional<Json> Kit::Next() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return Json::parse(line);
}

void Kit::Say(const Json& said) { std::cout << said.dump() << std::endl; }

absl::StatusOr<Json> Kit::Ask(const Json& question) {
  const std::lock_guard lock(asking_);
  Say(question);
  std::optional<Json> answer = Next();
  if (!answer.has_value()) return Failure("store", "the kit has gone");
  if (answer->contains("error")) return Failure("store", (*answer)["error"].get<std::string>());
  return *std::move(answer);
}

}  // namespace kerf::c::conformance
