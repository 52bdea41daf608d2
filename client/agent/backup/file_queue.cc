#include "client/agent/backup/file_queue.h"

#include <algorithm>
#include <string>

#include "kernels/fingerprint/xxh3.h"

namespace kerf::agent {

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
  waiting_[hash % waiting_.size()].push_back(slot);
  ++file_count_;
  changed_.notify_all();
  return true;
}

void FileQueue::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void FileQueue::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
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
  auto* files = &waiting_[lane];
  if (files->empty()) {
    files = &*std::max_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& left, const auto& right) { return left.size() < right.size(); });
  }
  std::uint64_t batch_bytes = 0;
  while (!files->empty() && batch.size() < kBatchFiles && batch_bytes < kBatchBytes) {
    batch_bytes += files->front()->entry.tree.node.size_bytes;
    batch.push_back(files->front());
    files->pop_front();
    --file_count_;
  }
  changed_.notify_all();
  return batch;
}

}  // namespace kerf::agent
