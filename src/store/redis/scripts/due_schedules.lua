#!lua flags=no-writes
-- Returns schedules whose next moment has come, or comes soon.
--
-- KEYS  per shard its agenda and its schedules
-- ARGV  microseconds or '', the most schedules of a shard, how many milliseconds may be left, after how many bytes of a shard no
--       more are returned
-- Reply { now in milliseconds, the next later moment or '', per schedule its name and its content }
local now = clock(ARGV[1])
local until_moment, most_bytes = string.format('%.0f', now + tonumber(ARGV[3])), tonumber(ARGV[4])
local reply, following = { now, '' }, nil
for i = 1, #KEYS, 2 do
  local bytes = 0
  local names = call('ZRANGEBYSCORE', KEYS[i], '-inf', until_moment, 'LIMIT', 0, ARGV[2])
  for _, name in ipairs(names) do
    if bytes > most_bytes then break end
    local content = call('HGET', KEYS[i + 1], name)
    if content then
      reply[#reply + 1], reply[#reply + 2] = name, content
      bytes = bytes + #content
    end
  end
  local later = call('ZRANGEBYSCORE', KEYS[i], '(' .. until_moment, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if later and (not following or tonumber(later) < following) then following = tonumber(later) end
end
if following then reply[2] = string.format('%.0f', following) end
return reply
