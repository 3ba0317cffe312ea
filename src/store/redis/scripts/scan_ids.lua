#!lua flags=no-writes
-- Returns the ids of some jobs of one shard. An id that is there from the first run to the last is in at least one reply.
--
-- KEYS  jobs
-- ARGV  cursor, about how many
-- Reply { next cursor, ids }
local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local reply = { found[1] }
for i = 1, #found[2], 2 do reply[#reply + 1] = found[2][i] end
return reply
