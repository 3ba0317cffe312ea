#!lua
-- Writes nothing, but the server refuses to start it when it could not write: a replica, a full
-- memory, a disk error, too few replicas. Refused also when the user lacks a right.
--
-- KEYS  counts
-- ARGV  the channels
local names = missing()
if #names > 0 then return redis.error_reply('NOPERM the user may not run ' .. table.concat(names, ', ')) end
return 1
