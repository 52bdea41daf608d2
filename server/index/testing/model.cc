#include "server/index/testing/model.h"

#include <algorithm>

namespace kerf {

std::uint64_t IndexModel::Epoch(const RepositoryId& repository) const {
  const auto found = epochs_.find(KeyOf(repository));
  return found == epochs_.end() ? 0 : found->second;
}

LookupResult IndexModel::Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                                const Digest& digest) const {
  const auto entries = entries_.find(KeyOf(repository));
  if (entries == entries_.end()) return {};
  const auto found = entries->second.find(digest);
  if (found == entries->second.end()) return {};
  const Entry& entry = found->second;
  const bool sure = std::max(entry.epoch, Epoch(repository)) >= session_epoch;
  return {sure ? Verdict::kDuplicate : Verdict::kUnverified, entry.length_bytes, entry.locator};
}

void IndexModel::Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                        const IndexEntry& entry, bool replace) {
  auto& entries = entries_[KeyOf(repository)];
  const auto found = entries.find(entry.digest);
  if (found == entries.end()) {
    entries[entry.digest] = {session_epoch, entry.length_bytes, entry.locator};
    return;
  }
  Entry& held = found->second;
  if (std::max(held.epoch, Epoch(repository)) >= session_epoch && !replace) return;
  held = {std::max(held.epoch, session_epoch), entry.length_bytes, entry.locator};
}

bool IndexModel::Forget(const RepositoryId& repository, const IndexEntry& entry) {
  auto& entries = entries_[KeyOf(repository)];
  const auto found = entries.find(entry.digest);
  if (found == entries.end()) return false;
  if (!entry.locator.empty() && entry.locator != found->second.locator) return false;
  entries.erase(found);
  removed_[KeyOf(repository)].push_back(entry.digest);
  return true;
}

std::uint64_t IndexModel::ForgetOlder(const RepositoryId& repository, std::uint64_t epoch,
                                      const std::optional<Digest>& after,
                                      const std::optional<Digest>& last) {
  std::vector<Digest> older;
  for (const auto& [digest, entry] : entries_[KeyOf(repository)]) {
    const bool is_asked_about =
        (!after.has_value() || *after < digest) && (!last.has_value() || !(*last < digest));
    if (is_asked_about && entry.epoch < epoch) older.push_back(digest);
  }
  for (const Digest& digest : older) Forget(repository, {digest, 0, ""});
  return older.size();
}

std::optional<std::uint64_t> IndexModel::AdvanceEpoch(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      std::uint64_t min_before) {
  const std::uint64_t before = Epoch(repository);
  if (before < min_before) return before;
  if (epoch < before) return std::nullopt;
  if (epoch > before) removed_[KeyOf(repository)].clear();
  epochs_[KeyOf(repository)] = epoch;
  return before;
}

void IndexModel::Drop(const RepositoryId& repository) {
  entries_.erase(KeyOf(repository));
  epochs_.erase(KeyOf(repository));
  removed_.erase(KeyOf(repository));
  created_.erase(KeyOf(repository));
}

void IndexModel::ResetEpoch(const RepositoryId& repository, std::uint64_t epoch) {
  for (auto& [digest, entry] : entries_[KeyOf(repository)]) {
    entry.epoch = std::min(entry.epoch, epoch);
  }
  epochs_[KeyOf(repository)] = epoch;
}

std::vector<IndexEntry> IndexModel::All(const RepositoryId& repository) const {
  std::vector<IndexEntry> all;
  const auto entries = entries_.find(KeyOf(repository));
  if (entries == entries_.end()) return all;
  for (const auto& [digest, entry] : entries->second) {
    all.push_back({digest, entry.length_bytes, entry.locator});
  }
  return all;
}

}  // namespace kerf
