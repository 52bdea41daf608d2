// Which master has which slot, as far as a RedisClient has been told, and whom it asks next. Its
// thread's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/address.h"
#include "server/redis/redis_client.h"

namespace kerf::redis {

// Questions are numbered, so that one who wants a map of now is not answered with an older one.
class Topology {
 public:
  // At least one seed.
  explicit Topology(std::vector<RedisAddress> seeds) : seeds_(std::move(seeds)) {}

  // None while no map is there, or the map has none for the slot.
  std::optional<RedisAddress> MasterOf(std::uint16_t slot) const;
  const std::vector<RedisAddress>& masters() const { return masters_; }
  // Of each master that has slots any one; of a single Redis any.
  std::vector<MasterSlot> SlotOfEach(std::minstd_rand& random) const;
  // As a redirect says.
  void Learn(std::uint16_t slot, const RedisAddress& master);

  // Begins a question: CLUSTER SLOTS to one of masters and seeds in turn. It ends with one of the
  // next two.
  RedisAddress Ask();
  bool is_asking() const { return is_asking_; }
  // Of the question that is asked, or that was asked last.
  std::uint64_t question() const { return question_; }

  // It had no answer, or none that says which masters there are. Not OK once a whole turn has gone
  // by without one and somebody was forbidden to ask: PermissionDenied, with what that node said.
  absl::Status Failed(const std::string& error, bool is_forbidden);
  // The map is that of the answer from `asked`; false, and nothing has changed, if the answer is
  // none, or a stranger's. One that is another cluster is believed if `may_be_others`: this one may
  // have been made anew.
  bool Answered(const RedisReply& answer, const RedisAddress& asked, bool may_be_others = false);

  // Why a node that answers CLUSTER SLOTS so is none of the cluster that the map is of: it has an
  // address that once was a node's. Empty: it is one, or nobody can tell.
  std::string StrangerIn(const RedisReply& answer) const;
  // Whether a whole turn has gone by without an answer since the last one.
  bool has_turn_failed() const { return has_turn_failed_; }
  bool is_single() const { return is_single_; }
  bool is_cluster() const { return !node_ids_.empty(); }

  // Of the last question; empty if it was answered.
  const std::string& error() const { return error_; }

 private:
  const std::vector<RedisAddress> seeds_;
  std::vector<RedisAddress> masters_;
  // Into masters_.
  std::vector<std::uint16_t> master_of_slot_;
  // Of all nodes of the cluster, replicas too; none of a single Redis.
  std::set<std::string> node_ids_;
  bool is_single_ = false;
  bool has_turn_failed_ = false;
  bool is_asking_ = false;
  std::uint64_t question_ = 0;
  // Since a question was answered, or somebody was told that they all fail.
  std::size_t failed_count_ = 0;
  std::string forbidden_;
  std::string error_;
};

}  // namespace kerf::redis
