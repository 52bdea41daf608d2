// Another one's work in the middle of what is tested.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {

// Does `other` before the file operation of that number, from its construction to its end. What
// `other` does is not counted.
class Meanwhile final : public FileHook {
 public:
  Meanwhile(int number, std::function<void()> other)
      : remaining_(number), other_(std::move(other)) {
    SetFileHookForTest(this);
  }
  ~Meanwhile() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& /*operation*/) override {
    if (remaining_-- == 0) {
      SetFileHookForTest(nullptr);
      other_();
      SetFileHookForTest(this);
    }
    return absl::OkStatus();
  }

  // False: what is tested has fewer operations.
  bool came() const { return remaining_ < 0; }

 private:
  int remaining_;
  const std::function<void()> other_;
};

}  // namespace kerf::agent
