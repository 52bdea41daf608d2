// An implementation of algorithms for a kind of processor.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// An implementation of some algorithms for some processors. A plain value of static lifetime.
struct Backend {
  // "plain", "scalar", "avx2", ...: what --backend names.
  std::string_view name;
  // This processor and operating system can run it.
  bool (*runs_here)();
  // None for an algorithm that this backend does not implement. `profile` is valid; calls only
  // where runs_here().
  std::unique_ptr<Chunker> (*make)(const Profile& profile);
};

}  // namespace kerf
