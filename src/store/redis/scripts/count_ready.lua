#!lua flags=no-writes
-- Counts the ready jobs of some topics on some shards.
--
-- KEYS  per shard its counts
-- ARGV  the topics
-- Reply the numbers, topic by topic for the first shard, and so on
local reply = {}
for _, key in ipairs(KEYS) do
  for _, topic in ipairs(ARGV) do
    reply[#reply + 1] = tonumber(call('HGET', key, 'r' .. topic) or 0) or 0
  end
end
return reply
