#!lua flags=no-writes
-- How many jobs of a topic are ready on some shards.
--
-- KEYS  per shard its counts
-- ARGV  topic
local reply = {}
for i, key in ipairs(KEYS) do
  reply[i] = tonumber(call('HGET', key, 'r' .. ARGV[1]) or 0)
end
return reply
