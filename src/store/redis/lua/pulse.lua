#!lua flags=no-writes
-- The sweep's look at some shards.
--
-- KEYS  per shard its counts
-- Reply { seconds, microseconds of this server's clock, per shard how many announcements it has made }
local reply = call('TIME')
for i, key in ipairs(KEYS) do
  reply[2 + i] = call('HGET', key, '#') or '0'
end
return reply
