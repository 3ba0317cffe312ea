#!lua flags=no-writes
-- Returns records of the archive, the newest first, or one.
--
-- KEYS  records, their numbers
-- ARGV  id, or '' and the upper bound of the numbers and most records
-- Reply { per record its number, its id, when it was first written, and its text }
local STAMP = 6
local reply = {}
local function add(id, number)
  local value = call('HGET', KEYS[1], id)
  if not number or not value or #value < STAMP then return end
  local n = #reply
  reply[n + 1], reply[n + 2] = tonumber(number), id
  reply[n + 3], reply[n + 4] = unpack('>I6', value), sub(value, STAMP + 1)
end
if ARGV[1] ~= '' then
  add(ARGV[1], call('ZSCORE', KEYS[2], ARGV[1]))
  return reply
end
local found = call('ZREVRANGEBYSCORE', KEYS[2], ARGV[2], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for i = 1, #found, 2 do add(found[i], found[i + 1]) end
return reply
