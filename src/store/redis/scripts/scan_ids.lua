#!lua flags=no-writes
-- Returns the ids of some jobs of one shard. An id that is there from the first run to the last is in at least one reply.
--
-- KEYS  jobs
-- ARGV  cursor, about how many
-- Reply { next cursor, ids }
local next_cursor, found = scan(KEYS[1], ARGV[1], ARGV[2])
local reply = { next_cursor }
for i = 1, #found, 2 do reply[#reply + 1] = found[i] end
return reply
