#!lua flags=allow-oom
-- Forgets the lanes of processes that are gone.
--
-- KEYS  lanes
-- ARGV  microseconds or '', ms after which a lane is forgotten, latest moment by this server's clock
local NOW, _, _, server = clock(ARGV[1])
if server > tonumber(ARGV[3]) then return late() end
local refused = denied()
if refused then return refused end
local lanes = call('HGETALL', KEYS[1])
for i = 1, #lanes, 2 do
  local _, used = unpack('>I6I6', lanes[i + 1])
  if used + ARGV[2] < NOW then call('HDEL', KEYS[1], lanes[i]) end
end
return 1
