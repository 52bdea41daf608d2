// What Redis does in one step with the head of a base bucket. docs/adr/0022.
#pragma once

#include <string_view>

#include "server/redis/scripts.h"

namespace kerf::redis_scripts {

// is_there(path): whether there is a bucket of that path below the base bucket KEYS[1], or of a
// longer one, as KEYS[2] says how long they are. Below a deep path that is missing it would look at
// millions of keys, while nobody else is served: then it says that there is.
#define KERF_LUA_IS_BELOW                                                                   \
  "local longest, looked_at = longest_path(), 0\n"                                          \
  "local function is_there(path)\n"                                                         \
  "  looked_at = looked_at + 1\n"                                                           \
  "  if looked_at > 32768 or redis.call('EXISTS', KEYS[1] .. path) == 1 then return true\n" \
  "  end\n"                                                                                 \
  "  return #path < longest and (is_there(path .. '0') or is_there(path .. '1'))\n"         \
  "end\n"

// KEYS[1]: a bucket; KEYS[2]: how long the longest path of its base bucket is; KEYS[3]: the head of
// that. ARGV[1]: the bucket's `e` as read, ARGV[2]: the head's as read, ARGV[3]: the bucket's new
// one, ARGV[4]: the head's with one loss more; then fields, 1,000 at most (Lua's stack ends at
// 8,000). Their values, if both were what was read, and no other bucket is on its way or behind it;
// else 0, or TRYAGAIN where the slot moves and nobody can say. A Redis that is full takes it: to
// remove what is not there is a change, and behind one it refuses nothing.
inline constexpr std::string_view kBelieve = KERF_LUA_LONGEST KERF_LUA_STANDS R"lua(
if redis.call('HGET', KEYS[1], 'e') ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[3], 'e') ~= ARGV[2] then return 0 end
local others_above, others_below = above(), below()
if not others_above or not others_below then return unsure() end
if others_above > 0 then return 0 end
if others_below > 0 then
  empty(ARGV[3], ARGV[4])
  return 0
end
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'e', ARGV[3])
return redis.call('HMGET', KEYS[1], unpack(ARGV, 5))
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long its longest path is; KEYS[3]: its head. ARGV[1]: the
// head's `e` as read, ARGV[2]: its new one; ARGV[3]: the `e` of a bucket that is made if there is
// none at all; ARGV[4]: '1' if what has been removed goes on to count; ARGV[5]: the head's new `e`
// if one is made below a head that was there: it is lost, though it was there when it was looked
// at. 1 if it was done.
inline constexpr std::string_view kRaise = KERF_LUA_LONGEST KERF_LUA_IS_BELOW R"lua(
if (redis.call('HGET', KEYS[3], 'e') or '') ~= ARGV[1] then return 0 end
-- First: a Redis that is full takes what follows a removal.
if ARGV[4] == '1' then redis.call('HDEL', KEYS[3], '')
else redis.call('HDEL', KEYS[3], 'x') end
local has_bucket = is_there('')
redis.call('HSET', KEYS[3], 'e', (has_bucket or ARGV[1] == '') and ARGV[2] or ARGV[5])
if not has_bucket then redis.call('HSET', KEYS[1], 'e', ARGV[3]) end
return 1
)lua";

// KEYS as above. ARGV[1]: the head's `e` as read, ARGV[2]: its new one; ARGV[3]: how many entries
// it says were removed ('': what it says stays); then by threes a path, the `e` of its bucket as
// read ('': there is none, nor one on the way to it or behind it), and its new one: of all paths
// below the base bucket. Below a head that is there one that is to stay as it was need only be
// there: behind an epoch others raise buckets all the time. What the head says of entries is
// counted anew. 1 if it was done, 0 if something is not what was read.
inline constexpr std::string_view kFollow = KERF_LUA_LONGEST KERF_LUA_IS_BELOW R"lua(
if (redis.call('HGET', KEYS[3], 'e') or '') ~= ARGV[1] then return 0 end
local function stays(at)
  return ARGV[1] ~= '' and ARGV[at + 1] ~= '' and ARGV[at + 1] == ARGV[at + 2]
end
for at = 4, #ARGV, 3 do
  local epoch = redis.call('HGET', KEYS[1] .. ARGV[at], 'e') or ''
  if epoch == '' and stays(at) then return 0 end
  if epoch ~= ARGV[at + 1] and not stays(at) then return 0 end
  if ARGV[at + 1] == '' and is_there(ARGV[at]) then return 0 end
end
local count = 0
redis.call('HDEL', KEYS[3], '')
for at = 4, #ARGV, 3 do
  if not stays(at) then redis.call('HSET', KEYS[1] .. ARGV[at], 'e', ARGV[at + 2]) end
  count = count + redis.call('HLEN', KEYS[1] .. ARGV[at]) - 1
end
redis.call('HSET', KEYS[3], 'e', ARGV[2], 'n', string.format('%.0f', count))
if ARGV[3] ~= '' then redis.call('HSET', KEYS[3], 'x', ARGV[3]) end
return 1
)lua";

#undef KERF_LUA_IS_BELOW
#undef KERF_LUA_LONGEST
#undef KERF_LUA_STANDS

}  // namespace kerf::redis_scripts
