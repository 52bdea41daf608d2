// The index as one would write it on paper: the definition that the backends are held to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/index/index.h"

namespace kerf {

// Arguments are valid. Not thread-safe.
class IndexModel {
 public:
  LookupResult Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                      const Digest& digest) const;
  // The session's epoch does not lie behind the repository's.
  void Commit(const RepositoryId& repository, std::uint64_t session_epoch, const IndexEntry& entry,
              bool replace);
  // Whether it was there and is now gone.
  bool Forget(const RepositoryId& repository, const IndexEntry& entry);
  // How many entries behind `after`, up to `last` (to the end without it), were older than `epoch`
  // and are gone.
  std::uint64_t ForgetOlder(const RepositoryId& repository, std::uint64_t epoch,
                            const std::optional<Digest>& after, const std::optional<Digest>& last);
  // What has been removed since the epoch was raised: each digest as often as it was.
  const std::vector<Digest>& Removed(const RepositoryId& repository) {
    return removed_[KeyOf(repository)];
  }
  // The epoch before; nothing if `epoch` lies behind it.
  std::optional<std::uint64_t> AdvanceEpoch(const RepositoryId& repository, std::uint64_t epoch,
                                            std::uint64_t min_before);
  // Without its entries, its epoch, and that it was created.
  void Drop(const RepositoryId& repository);
  void ResetEpoch(const RepositoryId& repository, std::uint64_t epoch);
  // Whether it was not yet.
  bool Create(const RepositoryId& repository) { return created_.insert(KeyOf(repository)).second; }
  bool IsCreated(const RepositoryId& repository) const {
    return created_.contains(KeyOf(repository));
  }
  std::vector<IndexEntry> All(const RepositoryId& repository) const;
  std::uint64_t Epoch(const RepositoryId& repository) const;

 private:
  struct Entry {
    std::uint64_t epoch = 0;
    std::uint32_t length_bytes = 0;
    std::string locator;
  };
  using Key = std::pair<std::string, DigestAlgorithm>;
  static Key KeyOf(const RepositoryId& repository) {
    return {repository.name, repository.digest_algorithm};
  }

  std::map<Key, std::map<Digest, Entry>> entries_;
  std::map<Key, std::uint64_t> epochs_;
  std::map<Key, std::vector<Digest>> removed_;
  std::set<Key> created_;
};

}  // namespace kerf
