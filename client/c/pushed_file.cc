#include "client/c/pushed_file.h"

#include <algorithm>
#include <cstring>

#include "client/cpp/out_of_memory.h"

namespace kerf::c {
namespace {

// A piece that is as large is not worth a copy; it takes two changes of threads.
constexpr std::size_t kCollectedBytes = std::size_t{256} << 10;

}  // namespace

PushedFile::PushedFile(const Send& send)
    : thread_([this, send] {
        const absl::Status status = client::OrOutOfMemory(
            [&] { return send([this](std::span<std::uint8_t> span) { return Read(span); }); });
        const std::lock_guard lock(mutex_);
        is_sent_ = true;
        sent_ = status;
        changed_.notify_all();
      }) {}

PushedFile::~PushedFile() {
  if (!thread_.joinable()) return;
  Finish(client::OrOutOfMemory([] {
    return absl::CancelledError("the file was left");
  })).IgnoreError();
}

absl::StatusOr<std::size_t> PushedFile::Read(std::span<std::uint8_t> span) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_ended_ || !given_.empty(); });
  if (given_.empty()) {
    if (!end_.ok()) return end_;
    return 0;
  }
  const std::size_t count = std::min(span.size(), given_.size());
  std::memcpy(span.data(), given_.data(), count);
  given_ = given_.subspan(count);
  if (given_.empty()) changed_.notify_all();
  return count;
}

absl::Status PushedFile::Give(std::span<const std::uint8_t> bytes) {
  std::unique_lock lock(mutex_);
  given_ = bytes;
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_sent_ || given_.empty(); });
  given_ = {};
  return is_sent_ ? sent_ : absl::OkStatus();
}

absl::Status PushedFile::Write(std::span<const std::uint8_t> bytes) {
  if (collected_.size() + bytes.size() <= kCollectedBytes) {
    collected_.insert(collected_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }
  if (!collected_.empty()) {
    const absl::Status status = Give(collected_);
    collected_.clear();
    if (!status.ok()) return status;
  }
  if (bytes.size() >= kCollectedBytes) return Give(bytes);
  collected_.assign(bytes.begin(), bytes.end());
  return absl::OkStatus();
}

absl::Status PushedFile::End() {
  if (!collected_.empty()) Give(collected_).IgnoreError();
  return Finish(absl::OkStatus());
}

absl::Status PushedFile::Abandon(const absl::Status& why) { return Finish(why); }

absl::Status PushedFile::Finish(const absl::Status& end) {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    end_ = end;
    changed_.notify_all();
  }
  thread_.join();
  return sent_;
}

}  // namespace kerf::c
