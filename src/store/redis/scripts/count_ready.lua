#!lua flags=no-writes
-- Counts the ready jobs of some outlets on some shards.
--
-- KEYS  per shard its counts
-- ARGV  the outlets
-- Reply the numbers, outlet by outlet for the first shard, and so on
local reply = {}
for _, key in ipairs(KEYS) do
  for _, outlet in ipairs(ARGV) do
    reply[#reply + 1] = tonumber(call('HGET', key, 'r' .. outlet) or 0) or 0
  end
end
return reply
