// What the C functions return: a class of errors, and the text behind it.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/c/kerf.h"

// Of kerf.h.
struct kerf_error {
  kerf_code code = KERF_OK;
  std::string message;
  std::string reason;
  std::string request_id;
};

namespace kerf::c {

// A status of this library's own, whose class is known.
absl::Status ErrorOf(kerf_code code, std::string_view message);

// What is to be done about a status, whoever it is of.
kerf_code CodeOf(const absl::Status& status);

// The class of `status`, which is put into `error` unless that is null.
kerf_code Return(const absl::Status& status, kerf_error** error);

// What `error` is where there is no memory for another one: always the same, which nobody frees.
kerf_error* NoMemory();

// The same as Return, for what was thrown. Neither throws.
kerf_code ReturnNoMemory(kerf_error** error) noexcept;
kerf_code ReturnUnexpected(std::string_view what, kerf_error** error) noexcept;

// Runs what a C function does: nothing that it throws comes out, and whatever is not KERF_OK has an
// error, for there are callers who look at that alone.
template <typename Body>
kerf_code Guard(kerf_error** error, const Body& body) {
  if (error != nullptr) *error = nullptr;
  try {
    return Return(body(), error);
  } catch (const std::bad_alloc&) {
    return ReturnNoMemory(error);
  } catch (const std::exception& thrown) {
    return ReturnUnexpected(thrown.what(), error);
  } catch (...) {
    return ReturnUnexpected("something that is no std::exception was thrown", error);
  }
}

}  // namespace kerf::c
