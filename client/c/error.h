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

// Runs what a C function does: nothing that it throws comes out.
template <typename Body>
kerf_code Guard(kerf_error** error, const Body& body) {
  if (error != nullptr) *error = nullptr;
  try {
    return Return(body(), error);
  } catch (const std::bad_alloc&) {
    return KERF_NO_MEMORY;
  } catch (const std::exception& thrown) {
    try {
      return Return(ErrorOf(KERF_UNEXPECTED, thrown.what()), error);
    } catch (...) {
      return KERF_UNEXPECTED;
    }
  } catch (...) {
    return KERF_UNEXPECTED;
  }
}

}  // namespace kerf::c
