#!lua flags=allow-oom
-- Gives calls of a topic's rate back, unless others were taken or given back since. `store/rate_limit.rs` does the same.
-- It is sent once: after a second run, calls that another process took in between would be given back in their place.
--
-- KEYS  rate limits
-- ARGV  topic, thousandths of a call a second, how many calls, what `allow.lua` has stored, deadline by this server's clock
-- Reply nil
local _, _, _, server = clock('')
if server > tonumber(ARGV[5]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local stored = tonumber(call('HGET', KEYS[1], ARGV[1]) or 0) or 0
-- A double has a resolution of a quarter of a microsecond here.
if stored * 4 == tonumber(ARGV[4]) then
  call('HSET', KEYS[1], ARGV[1], string.format('%.3f', stored - ARGV[3] * 1e9 / ARGV[2]))
end
return false
