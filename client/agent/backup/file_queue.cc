#include "client/agent/backup/file_queue.h"

#include <algorithm>
#include <string>

#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent {
namespace {

std::uint64_t AheadBytesOf(const EntryWindow::Slot& slot) {
  return std::min(slot.entry.tree.node.size_bytes, kAheadFileBytes);
}

}  // namespace

std::uint64_t HomeHash(std::string_view path, std::uint64_t size_bytes) {
  if (size_bytes < kBatchBytes) path = path.substr(0, path.rfind('/') + 1);
  return Xxh3Of64({reinterpret_cast<const std::uint8_t*>(path.data()), path.size()});
}

bool FileQueue::Push(EntryWindow::Slot* slot) {
  const Node& node = slot->entry.tree.node;
  const std::uint64_t hash = HomeHash(node.path, node.size_bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return file_count_ < max_files_ || aborted_; });
  if (aborted_) return false;
  waiting_[hash % waiting_.size()].files.push_back(slot);
  ++file_count_;
  changed_.notify_all();
  if (HasWorkAhead()) ahead_changed_.notify_one();
  return true;
}

void FileQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  ahead_changed_.notify_all();
}

void FileQueue::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
  ahead_changed_.notify_all();
}

bool FileQueue::aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

bool FileQueue::drained() {
  const std::lock_guard lock(mutex_);
  return aborted_ || (closed_ && file_count_ == 0);
}

FileQueue::Batch FileQueue::Pop(std::size_t lane, const std::function<void()>& idle) {
  std::unique_lock lock(mutex_);
  if (file_count_ == 0 && !closed_ && !aborted_) {
    lock.unlock();
    idle();
    lock.lock();
  }
  changed_.wait(lock, [this] { return file_count_ > 0 || closed_ || aborted_; });
  Batch batch;
  if (aborted_) return batch;
  Waiting* waiting = &waiting_[lane];
  if (waiting->files.empty()) {
    waiting = &*std::max_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& left, const auto& right) { return left.files.size() < right.files.size(); });
  }
  std::uint64_t batch_bytes = 0;
  while (!waiting->files.empty() && batch.size() < kBatchFiles && batch_bytes < kBatchBytes) {
    EntryWindow::Slot* const slot = waiting->files.front();
    batch_bytes += slot->entry.tree.node.size_bytes;
    batch.push_back(slot);
    waiting->files.pop_front();
    --file_count_;
    if (waiting->ahead_count == 0) continue;
    --waiting->ahead_count;
    --ahead_count_;
    ahead_bytes_ -= AheadBytesOf(*slot);
  }
  changed_.notify_all();
  // Also that there will be none, if this was the last.
  if (HasWorkAhead() || closed_) ahead_changed_.notify_one();
  return batch;
}

// From half of the bounds on: a file at a time could not be put in order.
bool FileQueue::HasWorkAhead() const {
  const std::size_t left_count = file_count_ - ahead_count_;
  return (left_count >= kMinAheadFiles || (closed_ && left_count > 0)) &&
         ahead_count_ <= kAheadFiles / 2 && ahead_bytes_ <= kAheadBytes / 2;
}

void FileQueue::TakeFrontAhead(Waiting& waiting, std::vector<AheadFile>& files) {
  if (waiting.ahead_count == waiting.files.size()) return;
  const EntryWindow::Slot& slot = *waiting.files[waiting.ahead_count++];
  const std::uint64_t size_bytes = AheadBytesOf(slot);
  ++ahead_count_;
  ahead_bytes_ += size_bytes;
  if (size_bytes == 0) return;
  files.push_back({slot.entry.tree.node.path, slot.entry.identity, size_bytes});
}

std::vector<AheadFile> FileQueue::TakeAhead() {
  std::unique_lock lock(mutex_);
  std::vector<AheadFile> files;
  while (files.empty()) {
    ahead_changed_.wait(lock, [this] {
      return aborted_ || HasWorkAhead() || (closed_ && file_count_ == ahead_count_);
    });
    if (aborted_ || (closed_ && file_count_ == ahead_count_)) break;
    while (file_count_ > ahead_count_ && ahead_count_ < kAheadFiles && ahead_bytes_ < kAheadBytes) {
      for (Waiting& waiting : waiting_) TakeFrontAhead(waiting, files);
    }
  }
  return files;
}

}  // namespace kerf::agent
