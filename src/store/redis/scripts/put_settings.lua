#!lua
-- Sets or clears the settings of a topic, and notifies every process.
--
-- KEYS  settings
-- ARGV  channel, field, value or '' to clear, topic, deadline by this server's clock
-- Reply { the version of all settings }
local _, _, _, server = clock('')
if server > tonumber(ARGV[5]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local version = tonumber(call('HGET', KEYS[1], '#') or 0) or 0
if ARGV[3] == '' then
  call('HDEL', KEYS[1], ARGV[2])
else
  call('HSET', KEYS[1], ARGV[2], ARGV[3])
end
version = string.format('%.0f', version + 1)
call('HSET', KEYS[1], '#', version)
-- May fail: the other processes also read the version with every sweep.
local attempt = redis.pcall
attempt('PUBLISH', ARGV[1], ARGV[4])
return { tonumber(version) }
