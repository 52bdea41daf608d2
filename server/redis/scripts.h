// What Redis does in one step. None of it knows what an entry is. docs/adr/0008.
#pragma once

#include <string_view>

namespace kerf::redis_scripts {

// KEYS[1]: a bucket. ARGV[1]: its `e` as read, ARGV[2]: its new `e`; then by threes a field, its
// value as read and the new one ("": none). {1, number of fields} if it was done; {0, 0} if
// something is not what was read: nothing is changed then. ARGV[1] is "" for a base bucket that is
// to be made; then KEYS[2] says how long the longest path below it is, and there may be no bucket.
inline constexpr std::string_view kChange = R"lua(
local function read(field) return redis.call('HGET', KEYS[1], field) or '' end
if read('e') ~= ARGV[1] then return {0, 0} end
if ARGV[1] == '' then
  local longest = tonumber(redis.call('GET', KEYS[2]) or '0')
  local function is_there(path)
    if redis.call('EXISTS', KEYS[1] .. path) == 1 then return true end
    return #path < longest and (is_there(path .. '0') or is_there(path .. '1'))
  end
  if is_there('') then return {0, 0} end
end
for at = 3, #ARGV, 3 do
  if read(ARGV[at]) ~= ARGV[at + 1] then return {0, 0} end
end
if ARGV[2] ~= ARGV[1] then redis.call('HSET', KEYS[1], 'e', ARGV[2]) end
for at = 3, #ARGV, 3 do
  if ARGV[at + 2] == '' then redis.call('HDEL', KEYS[1], ARGV[at])
  else redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2]) end
end
return {1, redis.call('HLEN', KEYS[1])}
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long the longest path below it is. ARGV[1]: the `e` of all
// buckets of a path of ARGV[2] bits, which are made unless there is any bucket. 1 if they were.
inline constexpr std::string_view kMake = R"lua(
local longest = tonumber(redis.call('GET', KEYS[2]) or '0')
local depth = tonumber(ARGV[2])
local function is_there(path)
  if redis.call('EXISTS', KEYS[1] .. path) == 1 then return true end
  return #path < longest and (is_there(path .. '0') or is_there(path .. '1'))
end
if is_there('') then return 0 end
if longest < depth then redis.call('SET', KEYS[2], ARGV[2]) end
local function make(path)
  if #path == depth then redis.call('HSET', KEYS[1] .. path, 'e', ARGV[1])
  else make(path .. '0') make(path .. '1') end
end
make('')
return 1
)lua";

// KEYS[1]: the base bucket's key; KEYS[2]: how long its longest path is, which only keeps a slot
// that moves from answering for what it does not have (TRYAGAIN). ARGV: paths of the longest kind.
// For each how many letters of it the bucket has that is there, -1 if none is.
inline constexpr std::string_view kFind = R"lua(
local found = {}
for at = 1, #ARGV do
  found[at] = -1
  for bits = 0, #ARGV[at] do
    if redis.call('HEXISTS', KEYS[1] .. string.sub(ARGV[at], 1, bits), 'e') == 1 then
      found[at] = bits
      break
    end
  end
end
return found
)lua";

// KEYS[1]: a bucket; KEYS[2]: how long the longest path of its base bucket is. ARGV[1]: the bit of
// its fields, counted from 0, that decides; ARGV[2]: how many fields it has at least, ARGV[3]: how
// long its children's paths are. The children get what it has. 1 if it was done.
inline constexpr std::string_view kSplit = R"lua(
if redis.call('HLEN', KEYS[1]) < tonumber(ARGV[2]) then return 0 end
if tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[3]) then
  redis.call('SET', KEYS[2], ARGV[3])
end
local byte = math.floor(ARGV[1] / 8) + 1
local worth = 2 ^ (7 - ARGV[1] % 8)
local all = redis.call('HGETALL', KEYS[1])
redis.call('DEL', KEYS[1])
for at = 1, #all, 2 do
  if all[at] == 'e' then
    redis.call('HSET', KEYS[1] .. '0', 'e', all[at + 1])
    redis.call('HSET', KEYS[1] .. '1', 'e', all[at + 1])
  else
    local bit = math.floor(string.byte(all[at], byte) / worth) % 2
    redis.call('HSET', KEYS[1] .. bit, all[at], all[at + 1])
  end
end
return 1
)lua";

// KEYS[1]: a base bucket; KEYS[2]: how long its longest path is. By threes the path, the `e` and
// the number of entries of each bucket that is there, in the order of the paths.
inline constexpr std::string_view kWalk = R"lua(
local longest = tonumber(redis.call('GET', KEYS[2]) or '0')
local out = {}
local function visit(path)
  local epoch = redis.call('HGET', KEYS[1] .. path, 'e')
  if epoch then
    out[#out + 1] = path
    out[#out + 1] = epoch
    out[#out + 1] = redis.call('HLEN', KEYS[1] .. path) - 1
  elseif #path < longest then
    visit(path .. '0')
    visit(path .. '1')
  end
end
visit('')
return out
)lua";

}  // namespace kerf::redis_scripts
