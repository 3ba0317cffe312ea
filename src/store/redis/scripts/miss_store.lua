#!lua flags=allow-oom
-- Notes that a process misses its store here, so that no new process takes this for the first start.
--
-- KEYS  meta
-- ARGV  the mark of that store, deadline by this server's clock
local _, _, _, server = clock('')
if server > tonumber(ARGV[2]) then return refuse_late() end
local refused = denied()
if refused then return refused end
return call('HSETNX', KEYS[1], 'missed', ARGV[1])
