// Callbacks within callbacks: one of upload A may send through upload B, and then waits for the
// callbacks of B, on whatever threads they run. None of these may wait for A.
#pragma once

#include <cstdint>

namespace kerf::c {

// Of one upload. Thread-safe, and nothing of it takes memory or throws.
class CallbackNest {
 public:
  CallbackNest() = default;
  CallbackNest(const CallbackNest&) = delete;
  CallbackNest& operator=(const CallbackNest&) = delete;

  // While it lives, its thread runs a callback of the upload.
  class Running {
   public:
    explicit Running(const CallbackNest& nest);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    friend class CallbackNest;
    const CallbackNest& nest_;
    const Running* const outer_;
  };

  // Whether the calling thread runs a callback of the upload, or one that such a callback waits
  // for: then it must not wait for the upload.
  bool IsCalling() const;
  // From here to EndWait the calling thread waits for callbacks of the upload, at times: one thread
  // at a time. False, and nothing has begun, if IsCalling.
  bool BeginWait();
  void EndWait();

 private:
  bool IsBelow(const Running* running, std::uint64_t search) const;

  // With the lock that all of them share. What the thread runs that waits; null: nothing, or nobody
  // waits.
  const Running* waiting_ = nullptr;
  // Which search has been here.
  mutable std::uint64_t search_ = 0;
};

}  // namespace kerf::c
