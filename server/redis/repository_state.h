// What Redis says of a repository as a whole, in `m:{R}`: docs/adr/0008 without a network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"

namespace kerf {

// How a repository lies in Redis; kerfd 0.1.0 knows the first layout, and refuses the others. What
// lies below a base bucket is of the third where there is a head, whatever the repository's
// version.
enum class RedisLayout : int {
  // `m:{R}` is not there, or has no version.
  kNone = 0,
  // All base buckets are made with the repository.
  kWhole = 1,
  // A base bucket is made for its first entry.
  kLazy = 2,
  // The same, with a head that fences all buckets below it (docs/adr/0022).
  kHeads = 3,
};

// Base buckets, a bit each. A plain value.
class BaseSet {
 public:
  BaseSet() = default;
  // As bytes() gives it; what is too long is not looked at.
  explicit BaseSet(std::string bytes) : bytes_(std::move(bytes)) {}

  bool Has(std::uint32_t base) const {
    return base / 8 < bytes_.size() &&
           (static_cast<unsigned char>(bytes_[base / 8]) >> (7 - base % 8) & 1) != 0;
  }
  void Add(std::uint32_t base) {
    if (base / 8 >= bytes_.size()) bytes_.resize(base / 8 + 1);
    bytes_[base / 8] =
        static_cast<char>(static_cast<unsigned char>(bytes_[base / 8]) | (0x80u >> base % 8));
  }
  // Eight to a byte, the first of them its highest bit; as short as the last one allows.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// A plain value.
struct RepositoryState {
  RedisLayout layout = RedisLayout::kNone;
  // As stored; empty: there is none.
  std::string name;
  std::string base_bits;
  // The name of the repository that was created; also without a version.
  std::string created;
  std::string epoch_value;
  std::string next_epoch_value;
  std::string reset_epoch_value;
  // The epoch that AdvanceEpoch has told all buckets, and the one, larger, that it has begun to
  // tell them; 0 without one.
  std::uint64_t epoch = 0;
  std::uint64_t next_epoch = 0;
  // The latest one that buckets below heads may have to which a ResetEpoch that is not done has not
  // come: behind their heads nobody sees it. 0: there is none.
  std::uint64_t reset_epoch = 0;
  // Base buckets that somebody has begun to make.
  BaseSet begun;
  // Those that were there when the epoch was last told.
  BaseSet told;

  // Base buckets are made when they are needed, and what follows is written down.
  bool makes_when_needed() const {
    return layout == RedisLayout::kLazy || layout == RedisLayout::kHeads;
  }
  // One that is not there is lost, and nobody knows what it knew.
  bool MustBeThere(std::uint32_t base) const { return !makes_when_needed() || told.Has(base); }
  // AdvanceEpoch makes one that is not there: somebody may be about to.
  bool MayBeMade(std::uint32_t base) const { return MustBeThere(base) || begun.Has(base); }
  // What counts as the epoch of one that is not there.
  std::uint64_t EpochWithout(std::uint32_t base) const { return MustBeThere(base) ? 0 : epoch; }
  // The epoch that one gets which is made.
  std::uint64_t EpochToMake(std::uint32_t base) const {
    return MustBeThere(base) ? 0 : highest_epoch();
  }
  std::uint64_t highest_epoch() const { return next_epoch > epoch ? next_epoch : epoch; }
};

// The fields of `m:{R}` that ParseRepositoryState wants, in its order.
const std::vector<std::string>& RepositoryStateFields();

// FailedPrecondition for the layout of a later kerfd, DataLoss where stored bytes cannot be
// understood.
absl::StatusOr<RepositoryState> ParseRepositoryState(const absl::StatusOr<RedisReply>& reply);

// What scripts are to change of `m:{R}`. Each of them looks at all that its rule depends on.
//
// `bases` are begun, if no epoch is told meanwhile, whoever else begins some: for kBegin.
std::vector<std::string> BeginBases(const RepositoryState& state,
                                    const std::vector<std::uint32_t>& bases);

// By threes a field, its value as read and the new one, for kAgree.
//
// `epoch` is about to be told to all buckets.
std::vector<std::string> BeginEpoch(const RepositoryState& state, std::uint64_t epoch);
// It has been told to all of `bases`, and there are no others that AdvanceEpoch has to look for.
std::vector<std::string> EndEpoch(const RepositoryState& state, std::uint64_t epoch,
                                  const BaseSet& bases);
// Whatever epoch was told, or is about to be, this one is from now on, and buckets that are made
// get it. Where there are heads it is written down which one was: EndEpoch removes that.
std::vector<std::string> ResetTo(const RepositoryState& state, std::uint64_t epoch);
// All base buckets are there.
std::vector<std::string> BecomeWhole(const RepositoryState& state);

}  // namespace kerf
