// hiredis's answers, as kerf's own values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/redis/redis_client.h"

struct redisReply;

namespace kerf {

// A copy. What is nested deeper than kerf ever asks for is left out.
RedisReply CopyReply(const redisReply* reply);

// A range of slots and the master that serves it.
struct RedisSlotRange {
  int first = 0;
  int last = 0;
  RedisAddress master;
};

// Of the answer to CLUSTER SLOTS from `asked`, whose host stands for one that is not known. A
// master without a port, as where only TLS is spoken, is left out. DataLoss if it is something
// else.
absl::StatusOr<std::vector<RedisSlotRange>> ParseClusterSlots(const RedisReply& reply,
                                                              const RedisAddress& asked);

// By what nodes of a cluster are told apart, for ever: the nodes that an answer to CLUSTER SLOTS
// names. None: it is something else, or of a Redis that does not say.
std::vector<std::string> NodeIdsOf(const RedisReply& reply);

// Whether an answer to CLUSTER SLOTS is that of a Redis that is no cluster.
bool IsOfSingle(const RedisReply& reply);

// What an error of Redis means for the command that got it.
struct RedisErrorMeaning {
  enum class Action : std::uint8_t {
    // The answer: it goes to the caller.
    kAnswer,
    // It passes: the same again after a pause.
    kRetry,
    // The slots have moved: to `target`, and the map is old.
    kMoved,
    // This once, behind ASKING.
    kAsk,
    // Whoever asks may not.
    kForbidden,
  };
  Action action = Action::kAnswer;
  RedisAddress target;
};
RedisErrorMeaning MeaningOf(std::string_view error, const RedisAddress& asked);

}  // namespace kerf
