#include "client/agent/backup/cache_warmer.h"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "base/strings.h"
#include "client/fs/page_cache.h"

namespace kerf::agent {
namespace {

// What a backup opens beside: directories of the walk (64), files of the lanes, packs, connections.
constexpr std::uint64_t kKeptDescriptors = 192;
// Of a thread that reads ahead: what stands for the file, and the file.
constexpr std::uint64_t kReaderDescriptors = 2;

}  // namespace

absl::StatusOr<ReadOrder> ParseReadOrder(std::string_view text) {
  if (text == "path") return ReadOrder::kPath;
  if (text == "inode") return ReadOrder::kInode;
  if (text == "physical") return ReadOrder::kPhysical;
  return absl::InvalidArgumentError(
      ToAbsl(Cat("'", text, "' is no order to read in: write path, inode or physical")));
}

std::vector<AheadFile> InOrder(std::vector<AheadFile> files, ReadOrder order,
                               const std::function<bool()>& is_over) {
  if (order == ReadOrder::kPath) return files;
  using Place = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
  std::vector<std::pair<Place, std::size_t>> places;
  places.reserve(files.size());
  for (std::size_t index = 0; index < files.size(); ++index) {
    const AheadFile& file = files[index];
    const bool is_asked = order == ReadOrder::kPhysical && !is_over();
    const std::uint64_t physical = is_asked ? PhysicalPlace(file.path, file.identity) : 0;
    places.push_back({{file.identity.device, physical, file.identity.inode}, index});
  }
  std::sort(places.begin(), places.end());
  std::vector<AheadFile> sorted;
  sorted.reserve(files.size());
  for (const auto& [place, index] : places) sorted.push_back(std::move(files[index]));
  return sorted;
}

unsigned AffordableReaders(unsigned wanted, std::uint64_t descriptor_limit) {
  if (descriptor_limit <= kKeptDescriptors) return 0;
  const std::uint64_t spare = (descriptor_limit - kKeptDescriptors) / kReaderDescriptors;
  return static_cast<unsigned>(std::min<std::uint64_t>(wanted, spare));
}

CacheWarmer::CacheWarmer(FileQueue& queue, unsigned reader_count, ReadOrder order,
                         BackupProgress& progress)
    : queue_(queue), order_(order), progress_(progress) {
  bool may_have_more = true;
  for (unsigned index = 0; index < reader_count && may_have_more; ++index) {
    try {
      threads_.emplace_back([this] { Run(); });
    } catch (const std::system_error&) {
      // As many as the system lets the user have: it is but a hint.
      may_have_more = false;
    }
  }
}

CacheWarmer::~CacheWarmer() {
  for (std::thread& thread : threads_) thread.join();
}

bool CacheWarmer::Next(AheadFile& file) {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (next_ < window_.size()) {
      AheadFile& next = window_[next_++];
      if (!warmth_.Wants()) continue;
      // No lane will come to it.
      if (queue_.aborted()) break;
      file = std::move(next);
      return true;
    }
    if (fetching_) {
      changed_.wait(lock, [this] { return !fetching_; });
      continue;
    }
    fetching_ = true;
    lock.unlock();
    std::vector<AheadFile> fetched =
        InOrder(queue_.TakeAhead(), order_, [this] { return queue_.aborted(); });
    lock.lock();
    window_ = std::move(fetched);
    next_ = 0;
    fetching_ = false;
    ended_ = window_.empty();
    changed_.notify_all();
  }
  return false;
}

void CacheWarmer::Run() {
  AheadFile file;
  while (Next(file)) {
    const bool was_cold = BeginReadingFile(file.path, file.identity, file.size_bytes);
    progress_.read_ahead_files.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    warmth_.Saw(was_cold);
  }
}

}  // namespace kerf::agent
