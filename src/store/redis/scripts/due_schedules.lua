#!lua flags=no-writes
-- Returns schedules whose next moment has come.
--
-- KEYS  per shard its agenda and its schedules
-- ARGV  microseconds or '', the most schedules of a shard
-- Reply { now in milliseconds, the next moment of another schedule or '', per schedule its name and its content }
local now = clock(ARGV[1])
local reply, following = { now, '' }, nil
for i = 1, #KEYS, 2 do
  local names = call('ZRANGEBYSCORE', KEYS[i], '-inf', now, 'LIMIT', 0, ARGV[2])
  for _, name in ipairs(names) do
    local content = call('HGET', KEYS[i + 1], name)
    if content then reply[#reply + 1], reply[#reply + 2] = name, content end
  end
  local later = call('ZRANGEBYSCORE', KEYS[i], '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if later and (not following or tonumber(later) < following) then following = tonumber(later) end
end
if following then reply[2] = string.format('%.0f', following) end
return reply
