#!lua flags=allow-oom
-- Runs every command that changes something on scratch keys, which are empty afterwards, and publishes.
--
-- KEYS  a hash, a sorted set, a list, a string
-- ARGV  the channels
-- Reply the missing permissions, and the commands that fail
local names = missing()
if #names > 0 then return names end
local hash, set, list, text = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local steps = {
  { 'HSET', hash, 'a', '1' }, { 'HSETNX', hash, 'b', '1' }, { 'HINCRBY', hash, 'a', '1' },
  { 'HDEL', hash, 'a', 'b' }, { 'ZADD', set, '1', 'a' }, { 'ZREM', set, 'a' },
  { 'RPUSH', list, 'a' }, { 'LPUSH', list, 'a' }, { 'LPOP', list, '2' }, { 'SET', text, '1' },
  { 'UNLINK', hash, set, list, text }, { 'PUBLISH', ARGV[2], '' },
}
for _, step in ipairs(steps) do
  -- Without its table, `unpack` is that of records.
  local answer = redis.pcall(_G.unpack(step))
  if type(answer) == 'table' and answer.err then names[#names + 1] = string.lower(step[1]) .. ' (' .. answer.err .. ')' end
end
return names
