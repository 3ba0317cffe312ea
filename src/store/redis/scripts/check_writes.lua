#!lua
-- Writes nothing, but a server that cannot write refuses to run it: a replica, a full
-- memory, a disk error, too few replicas. Also fails when the user lacks a permission, and when a move has closed a shard.
--
-- KEYS  counts
-- ARGV  the channels
local names = missing()
if #names > 0 then return redis.error_reply('NOPERM the user may not run ' .. table.concat(names, ', ')) end
for _, counts in ipairs(KEYS) do
  local refused = refuse_fenced(call('HGET', counts, '!'), '')
  if refused then return refused end
end
return 1
