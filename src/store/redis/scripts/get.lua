#!lua flags=no-writes
-- Returns the records of jobs.
--
-- KEYS  jobs
-- ARGV  the caller's scope, the ids
-- Reply per job its record or nil
local reply = {}
for i = 2, #ARGV do
  reply[i - 1] = in_scope(ARGV[1], call('HGET', KEYS[1], ARGV[i]))
end
return reply
