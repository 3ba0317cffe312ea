#!lua flags=no-writes
-- Returns how many schedules there are.
--
-- KEYS  per shard its schedules
-- Reply { their number }
local count = 0
for _, key in ipairs(KEYS) do count = count + call('HLEN', key) end
return { count }
