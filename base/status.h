// Early return of an absl::Status that is not OK.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define KERF_STATUS_CONCAT_(a, b) a##b
#define KERF_STATUS_CONCAT(a, b) KERF_STATUS_CONCAT_(a, b)

// KERF_RETURN_IF_ERROR(expression giving absl::Status);
#define KERF_RETURN_IF_ERROR(expression)                                \
  do {                                                                  \
    if (::absl::Status kerf_status = (expression); !kerf_status.ok()) { \
      return kerf_status;                                               \
    }                                                                   \
  } while (false)

// KERF_ASSIGN_OR_RETURN(auto value, expression giving absl::StatusOr<T>);
#define KERF_ASSIGN_OR_RETURN(target, expression) \
  KERF_ASSIGN_OR_RETURN_(KERF_STATUS_CONCAT(kerf_statusor_, __LINE__), target, expression)
#define KERF_ASSIGN_OR_RETURN_(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) {                                      \
    return std::move(result).status();                     \
  }                                                        \
  target = *std::move(result)
