#!lua flags=allow-oom
-- Removes the replay slots of processes that are gone.
--
-- KEYS  replay slots
-- ARGV  microseconds or '', lifetime of a slot in ms, deadline by this server's clock
local NOW, _, _, server = clock(ARGV[1])
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local slots = call('HGETALL', KEYS[1])
for i = 1, #slots, 2 do
  local _, used = unpack('>I6I6', slots[i + 1])
  if used + ARGV[2] < NOW then call('HDEL', KEYS[1], slots[i]) end
end
return 1
