#!lua flags=no-writes
-- Counts the jobs of some shards by state, without their records.
--
-- KEYS  per shard its jobs, due jobs, leases and dead letters by time
-- Reply delayed, ready, reserved and dead jobs
local jobs, delayed, reserved, dead = 0, 0, 0, 0
for i = 1, #KEYS, 4 do
  jobs, delayed = jobs + call('HLEN', KEYS[i]), delayed + call('ZCARD', KEYS[i + 1])
  reserved, dead = reserved + call('ZCARD', KEYS[i + 2]), dead + call('ZCARD', KEYS[i + 3])
end
return { delayed, math.max(jobs - delayed - reserved - dead, 0), reserved, dead }
