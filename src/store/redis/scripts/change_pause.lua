#!lua flags=allow-oom
-- Pauses and resumes parts of a topic in one step, and notifies every process. Also works when memory is full: it needs
-- a few bytes, and operators pause topics when something is wrong.
--
-- KEYS  settings
-- ARGV  channel, field, what to pause and what to resume (letters: d for delivery, i for intake), topic,
--       deadline by this server's clock
-- Reply { the version of all settings, the letters of the paused parts }
local _, _, _, server = clock('')
if server > tonumber(ARGV[6]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local version = tonumber(call('HGET', KEYS[1], '#') or 0) or 0
local was, now = call('HGET', KEYS[1], ARGV[2]) or '', ''
local function has(letters, letter) return string.find(letters, letter, 1, true) end
for _, letter in ipairs({ 'd', 'i' }) do
  if (has(was, letter) or has(ARGV[3], letter)) and not has(ARGV[4], letter) then now = now .. letter end
end
if now == was then return { version, now } end
if now == '' then
  call('HDEL', KEYS[1], ARGV[2])
else
  call('HSET', KEYS[1], ARGV[2], now)
end
version = string.format('%.0f', version + 1)
call('HSET', KEYS[1], '#', version)
-- May fail: the other processes also read the version with every sweep.
local attempt = redis.pcall
attempt('PUBLISH', ARGV[1], ARGV[5])
return { tonumber(version), now }
