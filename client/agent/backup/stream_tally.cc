#include "client/agent/backup/stream_tally.h"

namespace kerf::agent {

void StreamTally::Watch(client::ResumingUpload::Options& upload) {
  upload.on_resumed = [this] { ++resumed_; };
  upload.on_opened = [this](bool is_direct) {
    ++opened_;
    if (is_direct) ++direct_;
  };
  upload.on_cut_here = [this] { ++cut_here_; };
  upload.on_shared = [this] { ++shared_; };
  upload.on_detour = [this](const absl::Status& why) {
    const std::lock_guard lock(mutex_);
    detour_ = why;
  };
}

StreamCounts StreamTally::counts() const {
  const std::lock_guard lock(mutex_);
  return {resumed_, opened_, direct_, cut_here_, shared_, detour_};
}

}  // namespace kerf::agent
