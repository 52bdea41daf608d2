// Footers of the packs that are asked for, in bounded memory.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/packs/known_pack.h"

namespace kerf::agent {

// Keeps those that were used last. Thread-safe.
class FooterCache {
 public:
  // Takes `max_bytes`, and while it reads what one footer takes twice.
  FooterCache(std::string packs_directory, std::uint64_t max_bytes)
      : packs_directory_(std::move(packs_directory)), max_bytes_(max_bytes) {}

  // A pack as it was when its footer was read: it may be gone by now. NotFound if it is not there;
  // other errors are those of its footer, which is read once.
  absl::StatusOr<std::shared_ptr<const KnownPack>> Get(const PackId& id);

  // What it holds now, and how often it has read.
  std::uint64_t size_bytes() const;
  std::uint64_t read_count() const;

  // Damaged packs that are remembered; those beyond are read whenever they are asked for.
  static constexpr std::size_t kMaxDamaged = 4096;

 private:
  using Pack = std::shared_ptr<const KnownPack>;

  Pack Find(const PackId& id);
  void Keep(const Pack& pack);

  const std::string packs_directory_;
  const std::uint64_t max_bytes_;
  // One footer is read at a time: however many ask, memory stays what it is.
  std::mutex read_mutex_;
  // Under read_mutex_.
  absl::flat_hash_map<PackId, absl::Status> damaged_;

  // Of what follows.
  mutable std::mutex mutex_;
  std::list<Pack> recent_;
  absl::flat_hash_map<PackId, std::list<Pack>::iterator> by_id_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t read_count_ = 0;
};

}  // namespace kerf::agent
