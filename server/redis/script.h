// Lua in Redis: sent by its hash, and whole only to a node that does not know it yet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/task.h"
#include "server/redis/send_all.h"

namespace kerf {

struct ScriptCall {
  // The first decides about the node; all lie in its slot.
  std::vector<std::string> keys;
  std::vector<std::string> arguments;
};

// One run of `script` for each call; the answers in the order of the calls. Of `waits_for_slots`:
// RedisCommand::waits_for_slot.
Task<RedisReplies> RunScript(RedisClient& client, std::string_view script,
                             std::vector<ScriptCall> calls, int replica_count,
                             bool waits_for_slots = true);

}  // namespace kerf
