#include "client/c/error.h"

#include <cstddef>
#include <memory>
#include <new>

#include "absl/strings/cord.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/out_of_memory.h"
#include "client/cpp/retry.h"

namespace kerf::c {
namespace {

// Its value is one byte: the class.
constexpr char kCodePayload[] = "kerf/c-code";

}  // namespace

absl::Status ErrorOf(kerf_code code, std::string_view message) {
  absl::Status status(absl::StatusCode::kUnknown, ToAbsl(message));
  status.SetPayload(kCodePayload, absl::Cord(std::string(1, static_cast<char>(code))));
  return status;
}

kerf_code CodeOf(const absl::Status& status) {
  if (status.ok()) return KERF_OK;
  if (const auto code = status.GetPayload(kCodePayload); code.has_value() && code->size() == 1) {
    return static_cast<kerf_code>(std::string(*code).front());
  }
  if (client::IsOutOfMemory(status)) return KERF_NO_MEMORY;
  if (client::IsWrongAnswer(status)) return KERF_DISAGREEMENT;
  const std::string reason = client::ReasonOfLoss(status);
  if (reason == "EPOCH_BEHIND") return KERF_EPOCH_BEHIND;
  // It was sent again, once, or a part of it was answered (CLI-14, CLI-39): what has read it is not
  // to be trusted, and later it is no better.
  if (client::IsContentMismatch(status)) return KERF_REFUSED;
  // Somebody was too slow (CLI-16), or it was tried for long enough.
  const bool is_later =
      client::HasGivenUp(status) || (reason.empty() && absl::IsDeadlineExceeded(status));
  if (is_later) return KERF_RETRYABLE;
  // Of the client's own making: what a server answers is checked before it counts.
  const bool is_of_answers =
      reason.empty() && (absl::IsInternal(status) || absl::IsDataLoss(status));
  if (is_of_answers) return KERF_DISAGREEMENT;
  // CANCELLED, too, is a connection that broke: what was cancelled here has a code (ErrorOf).
  return client::LossOf(status) == client::Loss::kFinal ? KERF_REFUSED : KERF_RETRYABLE;
}

kerf_code Return(const absl::Status& status, kerf_error** error) {
  const kerf_code code = CodeOf(status);
  if (status.ok() || error == nullptr) return code;
  *error = std::make_unique<kerf_error>(kerf_error{code, std::string(MessageOf(status)),
                                                   client::ReasonOfCall(status),
                                                   client::RequestIdOf(status)})
               .release();
  return code;
}

kerf_error* NoMemory() {
  // In memory that is there, and with a text so short that a string needs none for it.
  alignas(kerf_error) static std::byte room[sizeof(kerf_error)];
  static kerf_error* const error = new (room) kerf_error{KERF_NO_MEMORY, "no memory left", "", ""};
  return error;
}

kerf_code ReturnNoMemory(kerf_error** error) noexcept {
  if (error != nullptr) *error = NoMemory();
  return KERF_NO_MEMORY;
}

kerf_code ReturnUnexpected(std::string_view what, kerf_error** error) noexcept {
  try {
    return Return(ErrorOf(KERF_UNEXPECTED, what), error);
  } catch (...) {
    return ReturnNoMemory(error);
  }
}

}  // namespace kerf::c
