#include "client/c/callback_nest.h"

#include <mutex>
#include <utility>

namespace kerf::c {
namespace {

// Of all uploads: who waits for whom is one graph. Taken by callbacks that call back alone, and for
// no longer than a look at it takes.
std::mutex graph_mutex;
std::uint64_t search_count = 0;

// What this thread runs, the innermost one.
thread_local const CallbackNest::Running* innermost = nullptr;

}  // namespace

CallbackNest::Running::Running(const CallbackNest& nest)
    : nest_(nest), outer_(std::exchange(innermost, this)) {}

CallbackNest::Running::~Running() { innermost = outer_; }

// Of a thread that runs callbacks each one may be waited for by another thread, within callbacks of
// its own. All of them are there: they end behind what they wait for, and that behind EndWait. No
// deeper than there are uploads.
bool CallbackNest::IsBelow(const Running* running, std::uint64_t search) const {
  for (; running != nullptr; running = running->outer_) {
    const CallbackNest& nest = running->nest_;
    if (&nest == this) return true;
    if (std::exchange(nest.search_, search) == search) continue;
    if (IsBelow(nest.waiting_, search)) return true;
  }
  return false;
}

bool CallbackNest::IsCalling() const {
  if (innermost == nullptr) return false;
  const std::lock_guard lock(graph_mutex);
  return IsBelow(innermost, ++search_count);
}

bool CallbackNest::BeginWait() {
  if (innermost == nullptr) return true;
  const std::lock_guard lock(graph_mutex);
  if (IsBelow(innermost, ++search_count)) return false;
  waiting_ = innermost;
  return true;
}

void CallbackNest::EndWait() {
  if (innermost == nullptr) return;
  const std::lock_guard lock(graph_mutex);
  waiting_ = nullptr;
}

}  // namespace kerf::c
