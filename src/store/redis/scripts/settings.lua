-- Prelude of the scripts that change what is set for a topic: tagged values (`job/topic_values.rs`), which only the caller reads.
--
-- KEYS   settings, meta
-- ARGV   channel, topic, deadline by this server's clock, origin, the values that are expected, the new ones; '' for none
-- Reply  { the version of all settings (microseconds), 1 if the values were replaced, 2 if the new ones were there already, 3 if others
--        were there; those, or '' }
local DONE, ALREADY, DIFFERS = 1, 2, 3
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied() or refuse_fenced(call('HGET', KEYS[1], '!'), ARGV[4])
  or (not call('HGET', KEYS[2], 'seed') and refuse_emptied() or nil)
if refused then return refused end
local version = tonumber(call('HGET', KEYS[1], '#') or 0) or 0

-- Replaces the values of the topic if they are as expected, notifies every process, and returns the reply. A second run finds
-- the new values.
local function update()
  local stored = call('HGET', KEYS[1], ARGV[2]) or ''
  if stored == ARGV[6] then return { version, ALREADY, '' } end
  if stored ~= ARGV[5] then return { version, DIFFERS, stored } end
  if ARGV[6] ~= '' then
    call('HSET', KEYS[1], ARGV[2], ARGV[6])
  else
    call('HDEL', KEYS[1], ARGV[2])
  end
  -- By the clock, so that a failover that loses the last changes does not lead to a version that processes know already.
  version = string.format('%.0f', math.max(version + 1, server))
  call('HSET', KEYS[1], '#', version)
  -- May fail: the other processes also read the version with every sweep.
  local attempt = redis.pcall
  attempt('PUBLISH', ARGV[1], ARGV[2])
  return { tonumber(version), DONE, '' }
end
