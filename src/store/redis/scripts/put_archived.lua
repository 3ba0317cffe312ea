#!lua
-- Writes a record of the archive. A new one removes expired ones.
--
-- KEYS  records, their numbers
-- ARGV  microseconds or '', id, text, most records, how many milliseconds one is kept, how many of the oldest a new one looks
--       at, deadline by this server's clock
-- Reply {}
local now, _, _, server = clock(ARGV[1])
if server > tonumber(ARGV[7]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local STAMP = 6 -- bytes before the text: when the record was first written
local id, most, oldest, looked = ARGV[2], tonumber(ARGV[4]), now - ARGV[5], tonumber(ARGV[6])
local known, number = call('HGET', KEYS[1], id), call('ZSCORE', KEYS[2], id)
if known and number and #known >= STAMP then
  call('HSET', KEYS[1], id, sub(known, 1, STAMP) .. ARGV[3])
  return {}
end
local last = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
number = (tonumber(last[2]) or 0) + 1
call('HSET', KEYS[1], id, pack('>I6', now) .. ARGV[3])
call('ZADD', KEYS[2], number, id)
local function remove(old)
  call('HDEL', KEYS[1], old)
  call('ZREM', KEYS[2], old)
end
for _, old in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', number - most, 'LIMIT', 0, looked)) do remove(old) end
for _, old in ipairs(call('ZRANGE', KEYS[2], 0, looked - 1)) do
  local value = call('HGET', KEYS[1], old)
  if not value or #value < STAMP or unpack('>I6', value) < oldest then remove(old) end
end
return {}
