#!lua
-- Sets or clears one thing about a topic, and tells every process.
--
-- KEYS  settings
-- ARGV  channel, field, value or '' to clear, topic, latest moment by this server's clock
-- Reply { the version of all settings }
local _, _, _, server = clock('')
if server > tonumber(ARGV[5]) then return late() end
if ARGV[3] == '' then
  call('HDEL', KEYS[1], ARGV[2])
else
  call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
local version = call('HINCRBY', KEYS[1], '#', 1)
call('PUBLISH', ARGV[1], ARGV[4])
return { version }
