// Memory, or a thread, that is not to be had: where a library finds none on a thread of its own,
// its upload ends, and not the process of the program that it is part of.
#pragma once

#include <new>
#include <system_error>

#include "absl/status/status.h"

namespace kerf::client {

// Aborted: what was under way was left where it was, so nobody goes on with it. It is made once, by
// the first call, and from then on takes no memory; nor do its copies. No server says so.
const absl::Status& OutOfMemory();
bool IsOutOfMemory(const absl::Status& status);

// What `body` returns, a status; OutOfMemory if it throws for want of memory or of a thread. What
// else is thrown is a bug, and is thrown on.
template <typename Body>
absl::Status OrOutOfMemory(const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::system_error&) {
    return OutOfMemory();
  }
}

}  // namespace kerf::client
