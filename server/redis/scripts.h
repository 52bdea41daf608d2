// What Redis does in one step. None of it knows what an entry is. docs/adr/0008.
#pragma once

#include <string_view>

namespace kerf::redis_scripts {

// longest_path(): how many bits the longest path below a base bucket has, as KEYS[2] says. What no
// split has written there counts as kMaxPathBits (buckets.h): so nothing is hidden, and nobody goes
// further than buckets can lie. head_scripts.h takes it, too.
#define KERF_LUA_LONGEST                                            \
  "local function longest_path()\n"                                 \
  "  local said = redis.call('GET', KEYS[2])\n"                     \
  "  local bits = said and string.match(said, '^%d%d?$') or '24'\n" \
  "  return said and math.min(tonumber(bits), 24) or 0\n"           \
  "end\n"

// is_there(key, path, longest): whether there is a bucket of that path below the base bucket `key`,
// or of a longer one. Below a deep path that is missing it would look at millions of keys, while
// nobody else is served: it gives up.
#define KERF_LUA_IS_THERE                                                                \
  "local looked_at = 0\n"                                                                \
  "local function is_there(key, path, longest)\n"                                        \
  "  looked_at = looked_at + 1\n"                                                        \
  "  if looked_at > 65536 then error('too many buckets are missing') end\n"              \
  "  if redis.call('EXISTS', key .. path) == 1 then return true end\n"                   \
  "  return #path < longest and\n"                                                       \
  "      (is_there(key, path .. '0', longest) or is_there(key, path .. '1', longest))\n" \
  "end\n"

// How KEYS[1] stands among the buckets below its base bucket, of which KEYS[2] says how long the
// longest path is. above(): how many others are on the way to it, which are found in its place:
// they were made when KEYS[2] had been lost, and a worker may remember what is behind them.
// below(): the same of one way from it on: it has come back, from a move that was broken off, when
// it had been split by others, or hides what was there before KEYS[2] was lost. Nobody can tell
// which of them is older. empty(epoch, head): so nothing of either stays, within a bound; the
// bucket has that `e`, and its head one that says that something is lost. nil: nobody can say, for
// the slot moves, and others may be at the other node. Asked for keys of which some are there,
// either node says that it does not know; asked for one alone, that to which the slot goes says
// that it is not there. What is answered then, unsure(), is as Redis itself says it. head_scripts.h
// takes it, too.
#define KERF_LUA_STANDS                                                                     \
  "local function unsure()\n"                                                               \
  "  return redis.error_reply('TRYAGAIN the slot of the bucket moves')\n"                   \
  "end\n"                                                                                   \
  "local function parts() return string.match(KEYS[1], '^(.*})([01]*)$') end\n"             \
  "local function beside(keys)\n"                                                           \
  "  if #keys == 0 then return 0 end\n"                                                     \
  "  local own = redis.call('EXISTS', KEYS[1])\n"                                           \
  "  keys[#keys + 1] = KEYS[1]\n"                                                           \
  "  local there = redis.pcall('EXISTS', unpack(keys))\n"                                   \
  "  return type(there) == 'number' and there - own or nil\n"                               \
  "end\n"                                                                                   \
  "local function above()\n"                                                                \
  "  local base, path = parts()\n"                                                          \
  "  local keys = {}\n"                                                                     \
  "  for bits = 0, #path - 1 do keys[bits + 1] = base .. string.sub(path, 1, bits) end\n"   \
  "  return beside(keys)\n"                                                                 \
  "end\n"                                                                                   \
  "local function bits_below(path)\n"                                                       \
  "  return longest_path() - #path\n"                                                       \
  "end\n"                                                                                   \
  "local function below()\n"                                                                \
  "  local base, path = parts()\n"                                                          \
  "  local keys = {}\n"                                                                     \
  "  for bits = 1, bits_below(path) do keys[bits] = KEYS[1] .. string.rep('0', bits) end\n" \
  "  return beside(keys)\n"                                                                 \
  "end\n"                                                                                   \
  "local function head_key() return 'm' .. string.sub(parts(), 2) end\n"                    \
  "local function empty(epoch, head)\n"                                                     \
  "  local base, path = parts()\n"                                                          \
  "  redis.call('DEL', KEYS[1])\n"                                                          \
  "  local looked_at = 0\n"                                                                 \
  "  local function clear(key, bits)\n"                                                     \
  "    looked_at = looked_at + 1\n"                                                         \
  "    if bits == 0 or looked_at > 32768 then return end\n"                                 \
  "    for bit = 0, 1 do\n"                                                                 \
  "      redis.call('DEL', key .. bit)\n"                                                   \
  "      clear(key .. bit, bits - 1)\n"                                                     \
  "    end\n"                                                                               \
  "  end\n"                                                                                 \
  "  clear(KEYS[1], bits_below(path))\n"                                                    \
  "  redis.call('HSET', KEYS[1], 'e', epoch)\n"                                             \
  "  redis.call('HSET', head_key(), 'e', head)\n"                                           \
  "end\n"

// add_head(out): three elements more, what the head KEYS[3] says: its `e`, how many entries are
// below it, and how many have been removed since its epoch was told; '' for what it does not say.
#define KERF_LUA_HEAD                                            \
  "local function add_head(out)\n"                               \
  "  local head = redis.call('HMGET', KEYS[3], 'e', 'n', 'x')\n" \
  "  for at = 1, 3 do out[#out + 1] = head[at] or '' end\n"      \
  "end\n"

// KEYS[1]: a bucket; KEYS[2]: how long the longest path of its base bucket is; KEYS[3]: the head of
// that. ARGV[1]: the bucket's `e` as read, ARGV[2]: its new `e`; ARGV[3], ARGV[4]: the same of the
// head, twice "" without one, which then is named only if it might be there: while a slot moves
// Redis runs no script that names a key which is not; ARGV[5]: the head's with one loss more ("":
// without one); then by threes a field, its value as read and the new one ("": none). {1, number of
// fields} if it was done; {0, 0} if something is not what was read: nothing is changed then.
// ARGV[1] is "" for a bucket that is to be made: there may be no bucket on the way to it or behind
// it. Nor where one below a head gets another `e`: what is hidden, or has come back, has not heard
// what was forgotten, and the head would vouch for it. What adds no entry, and makes none longer by
// more than 8 bytes, is done in a Redis that is full, too (maxmemory): it refuses what may need
// memory only to scripts that have changed nothing yet, and to remove what is not there is a
// change. A head counts what is below it.
inline constexpr std::string_view kChange =
    KERF_LUA_LONGEST KERF_LUA_IS_THERE KERF_LUA_STANDS R"lua(
local function read(field) return redis.call('HGET', KEYS[1], field) or '' end
if read('e') ~= ARGV[1] then return {0, 0} end
if (KEYS[3] and redis.call('HGET', KEYS[3], 'e') or '') ~= ARGV[3] then return {0, 0} end
local follows = ARGV[3] ~= '' and ARGV[2] ~= ARGV[1]
if ARGV[1] == '' or follows then
  local others_above, others_below = above(), 0
  if follows and ARGV[1] ~= '' then others_below = below() end
  if not others_above or not others_below then return unsure() end
  if others_above > 0 then return {0, 0} end
  if others_below > 0 then
    empty(ARGV[2], ARGV[5])
    return {0, 0}
  end
end
if ARGV[1] == '' then
  local base, path = parts()
  if is_there(base, path, longest_path()) then return {0, 0} end
end
for at = 6, #ARGV, 3 do
  if read(ARGV[at]) ~= ARGV[at + 1] then return {0, 0} end
end
local adds, more, less = false, 0, 0
for at = 6, #ARGV, 3 do
  adds = adds or (ARGV[at + 1] == '' and ARGV[at + 2] ~= '') or #ARGV[at + 2] > #ARGV[at + 1] + 8
  if ARGV[at + 1] == '' and ARGV[at + 2] ~= '' then more = more + 1 end
  if ARGV[at + 1] ~= '' and ARGV[at + 2] == '' then less = less + 1 end
end
if not adds then redis.call('HDEL', KEYS[1], '') end
if ARGV[4] ~= ARGV[3] then redis.call('HSET', KEYS[3], 'e', ARGV[4]) end
if ARGV[2] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'e', ARGV[2]) end
for at = 6, #ARGV, 3 do
  if ARGV[at + 2] == ARGV[at + 1] then -- It stays.
  elseif ARGV[at + 2] == '' then redis.call('HDEL', KEYS[1], ARGV[at])
  else redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2]) end
end
local function add(field, count)
  -- One that is none, or that Lua cannot count on from, is a count that nobody knows any more, and
  -- stays so until all is counted.
  local held = redis.call('HGET', KEYS[3], field) or '0'
  local sum = string.match(held, '^%d+$') and math.max(tonumber(held) + count, 0) or 2 ^ 53
  redis.call('HSET', KEYS[3], field, sum < 2 ^ 53 and string.format('%.0f', sum) or '?')
end
if ARGV[4] ~= '' and more ~= less then add('n', more - less) end
if ARGV[4] ~= '' and less > 0 then add('x', less) end
return {1, redis.call('HLEN', KEYS[1])}
)lua";

// KEYS[1]: what names the index. ARGV[1]: the name that it gets if it has none, also in a Redis
// that is full. The name that it has then.
inline constexpr std::string_view kName = R"lua(
local name = redis.call('GET', KEYS[1])
if name then return name end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
)lua";

// KEYS[1]: what says that a repository is there. ARGV: a field and what it gets unless it is there,
// then fields and values, which are few and short: a Redis that is full takes them, too.
inline constexpr std::string_view kWrite = R"lua(
redis.call('HDEL', KEYS[1], '')
if not redis.call('HGET', KEYS[1], ARGV[1]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
return 1
)lua";

// KEYS[1]: what says that a repository is there. ARGV[1]: '1' if a Redis that is full is to take
// it, too; then by threes a field, its value as read and the new one ("": none). 1 if it was done;
// 0 if something is not what was read: nothing is changed then.
inline constexpr std::string_view kAgree = R"lua(
for at = 2, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then return 0 end
end
if ARGV[1] == '1' then redis.call('HDEL', KEYS[1], '') end
for at = 2, #ARGV, 3 do
  if ARGV[at + 2] == ARGV[at + 1] then -- It stays.
  elseif ARGV[at + 2] == '' then redis.call('HDEL', KEYS[1], ARGV[at])
  else redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2]) end
end
return 1
)lua";

// KEYS[1]: what says that a repository is there. ARGV: by twos three fields and their values as
// read; then a field that is a set of numbers, a bit for each (eight to a byte, the first of them
// its highest), and numbers that are added to it. 1 if it was done; 0 if something is not what was
// read.
inline constexpr std::string_view kBegin = R"lua(
for at = 1, 6, 2 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') ~= ARGV[at + 1] then return 0 end
end
local bytes = {string.byte(redis.call('HGET', KEYS[1], ARGV[7]) or '', 1, -1)}
for at = 8, #ARGV do
  local number = tonumber(ARGV[at])
  local place = math.floor(number / 8) + 1
  for missing = #bytes + 1, place do bytes[missing] = 0 end
  local worth = 2 ^ (7 - number % 8)
  if math.floor(bytes[place] / worth) % 2 == 0 then bytes[place] = bytes[place] + worth end
end
redis.call('HSET', KEYS[1], ARGV[7], string.char(unpack(bytes)))
return 1
)lua";

// KEYS[1]: the list of all repositories. ARGV[1]: one that is added to it, in a Redis that is full,
// too.
inline constexpr std::string_view kEnlist = R"lua(
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], '1')
return 1
)lua";

// KEYS[1]: the same. ARGV[1]: one that goes.
inline constexpr std::string_view kDelist = R"lua(
return redis.call('HDEL', KEYS[1], ARGV[1])
)lua";

// KEYS[1]: what says that a repository is there. It says so no more, nor that it was created.
inline constexpr std::string_view kUnmake = R"lua(
return redis.call('DEL', KEYS[1])
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long its longest path is; KEYS[3]: its head. All of its
// buckets go, also those that others hide, within a bound: a worker may remember the path of one,
// and would believe it in the place of what comes behind the drop. All in one step: what somebody
// made meanwhile behind it would be hidden without KEYS[2]. How many they were, and how many
// entries they had.
inline constexpr std::string_view kDrop = KERF_LUA_LONGEST R"lua(
local longest = longest_path()
local buckets, entries, looked_at = 0, 0, 0
local function visit(path)
  looked_at = looked_at + 1
  if looked_at > 524288 then error('too many buckets are missing') end
  local key = KEYS[1] .. path
  local fields = redis.call('HLEN', key)
  if fields > 0 then
    buckets = buckets + 1
    entries = entries + fields - redis.call('HEXISTS', key, 'e')
    redis.call('DEL', key)
  end
  if #path < longest and (fields == 0 or looked_at < 65536) then
    visit(path .. '0')
    visit(path .. '1')
  end
end
visit('')
-- Last: it leads to what is left if this is broken off.
redis.call('DEL', KEYS[2])
redis.call('DEL', KEYS[3])
return {buckets, entries}
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long the longest path below it is; KEYS[3]: its head.
// ARGV[1]: the `e` of all buckets of a path of ARGV[2] bits, which are made unless there is any
// bucket, or a head: one that is missing below that is lost. 1 if they were.
inline constexpr std::string_view kMake = KERF_LUA_LONGEST KERF_LUA_IS_THERE R"lua(
local longest = longest_path()
local depth = tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[3]) == 1 or is_there(KEYS[1], '', longest) then return 0 end
if longest < depth then redis.call('SET', KEYS[2], ARGV[2]) end
local function make(path)
  if #path == depth then redis.call('HSET', KEYS[1] .. path, 'e', ARGV[1])
  else make(path .. '0') make(path .. '1') end
end
make('')
return 1
)lua";

// KEYS[1]: the base bucket's key; KEYS[2]: how long its longest path is; KEYS[3]: its head. ARGV:
// paths of the longest kind. For each how many letters of it the bucket has that is there. If none
// is (somebody deleted its key), -1 less the letters of the shortest path that may be made: no
// bucket is behind it, as far as was looked. That has a bound, half of is_there's, which looks
// there again: beside deep buckets there may be millions of keys behind a lost one, and a longer
// path may be made, too, with the fewer buckets behind it to look for. Behind that what the head
// says (KERF_LUA_HEAD).
inline constexpr std::string_view kFind = KERF_LUA_LONGEST KERF_LUA_HEAD R"lua(
local longest = longest_path()
local looked_at, known = 0, {}
-- Of a path and all behind it; nil: to look at more would hold others up.
local function is_empty(path)
  if known[path] ~= nil then return known[path] end
  looked_at = looked_at + 1
  if looked_at > 32768 then return nil end
  local answer = redis.call('EXISTS', KEYS[1] .. path) == 0
  if answer and #path < longest then answer = is_empty(path .. '0') end
  if answer and #path < longest then answer = is_empty(path .. '1') end
  known[path] = answer
  return answer
end
local function find(path)
  local bits = math.min(#path, longest)
  for there = 0, bits do
    if redis.call('HEXISTS', KEYS[1] .. string.sub(path, 1, there), 'e') == 1 then return there end
  end
  -- Up, for as long as what is beside the way is empty.
  while bits > 0 do
    local other = string.sub(path, bits, bits) == '0' and '1' or '0'
    if not is_empty(string.sub(path, 1, bits - 1) .. other) then break end
    bits = bits - 1
  end
  return -1 - bits
end
local found = {}
for at = 1, #ARGV do found[at] = find(ARGV[at]) end
add_head(found)
return found
)lua";

// KEYS[1]: a bucket; KEYS[2]: how long the longest path of its base bucket is; then all of its
// descendants of some depth, in order. One that is there, or is on the way to them, is from before
// KEYS[2] was lost: nobody sees it, or has seen what was forgotten and told since, and it goes; one
// on the way would be found in the place of all behind it. ARGV[1]: the bit of its
// fields, counted from 0, with which the number of the descendant begins that gets them; ARGV[2]:
// how many bits that has; ARGV[3]: how many fields it has at least, ARGV[4]: how long the
// descendants' paths are; ARGV[5]: the head's `e` as read, ARGV[6]: with one loss more, twice ""
// without one. Below a head it is emptied where others are below it: else what it is split into
// would have what is old, and nobody could tell. 1 if it was done.
inline constexpr std::string_view kSplit = KERF_LUA_LONGEST KERF_LUA_STANDS R"lua(
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[3]) then return 0 end
if ARGV[5] ~= '' then
  local others_below = below()
  if not others_below then return unsure() end
  if others_below > 0 then
    if redis.call('HGET', head_key(), 'e') == ARGV[5] then
      empty(redis.call('HGET', KEYS[1], 'e'), ARGV[6])
    end
    return 0
  end
end
if longest_path() < tonumber(ARGV[4]) then
  redis.call('SET', KEYS[2], ARGV[4])
end
local call, byte, floor = redis.call, string.byte, math.floor
local places, worths = {}, {}
for bit = tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1 do
  places[#places + 1] = floor(bit / 8) + 1
  worths[#worths + 1] = 2 ^ (7 - bit % 8)
end
local function clear(above, bits)
  for bit = 0, (bits > 0 and 1 or -1) do
    call('DEL', above .. bit)
    clear(above .. bit, bits - 1)
  end
end
clear(KEYS[1], #places)
local all = call('HGETALL', KEYS[1])
for at = 1, #all, 2 do
  local field = all[at]
  if field == 'e' then
    for child = 3, #KEYS do call('HSET', KEYS[child], 'e', all[at + 1]) end
  else
    local number = 0
    for bit = 1, #places do
      number = 2 * number + floor(byte(field, places[bit]) / worths[bit]) % 2
    end
    call('HSET', KEYS[3 + number], field, all[at + 1])
  end
end
-- Last: what has gone wrong until here has lost nothing.
redis.call('DEL', KEYS[1])
return 1
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long its longest path is; KEYS[3]: its head. By threes the
// path, the `e` and the number of entries of each bucket that is there; and for what is missing
// beside one, the shortest path that may be made, '' and 0. None if there is no bucket at all. Last
// what the head says (KERF_LUA_HEAD).
inline constexpr std::string_view kWalk = KERF_LUA_LONGEST KERF_LUA_HEAD R"lua(
local longest = longest_path()
local out = {}
local function add(path, epoch, count)
  out[#out + 1] = path
  out[#out + 1] = epoch
  out[#out + 1] = count
end
local looked_at = 0
local function visit(path)
  looked_at = looked_at + 1
  if looked_at > 524288 then error('too many buckets are missing') end
  local epoch = redis.call('HGET', KEYS[1] .. path, 'e')
  if epoch then
    add(path, epoch, redis.call('HLEN', KEYS[1] .. path) - 1)
    return true
  end
  if #path >= longest then return false end
  local is_left, is_right = visit(path .. '0'), visit(path .. '1')
  if is_left and not is_right then add(path .. '1', '', 0) end
  if is_right and not is_left then add(path .. '0', '', 0) end
  return is_left or is_right
end
visit('')
add_head(out)
return out
)lua";

#undef KERF_LUA_HEAD
#undef KERF_LUA_IS_THERE

}  // namespace kerf::redis_scripts
