-- Prelude of the scripts that change what is set for a topic: tagged values, as the attributes of a record
-- (`job/topic_values.rs`). All values that a script is not about are kept, also those of a later version.
--
-- KEYS  settings, meta
-- ARGV  channel, topic, deadline by this server's clock, origin, then from ARGV[5] the script's own arguments
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied() or refuse_fenced(call('HGET', KEYS[1], '!'), ARGV[4])
  or (not call('HGET', KEYS[2], 'seed') and refuse_emptied() or nil)
if refused then return refused end
local version = tonumber(call('HGET', KEYS[1], '#') or 0) or 0

-- Decodes values to a table of the encoded ones by tag, which is empty when they are malformed.
local function decode_values(raw)
  local values, at, last = {}, 1, 0
  while at <= #raw do
    if at + 2 > #raw then return {} end
    local tag, size = unpack('>BI2', raw, at)
    if tag <= last or at + 2 + size > #raw then return {} end
    values[tag] = sub(raw, at, at + 2 + size)
    at, last = at + 3 + size, tag
  end
  return values
end
local VALUES = decode_values(call('HGET', KEYS[1], ARGV[2]) or '')

-- Stores the values, notifies every process, and returns the new version of all settings.
local function store_values()
  local encoded = {}
  for tag = 1, 255 do encoded[#encoded + 1] = VALUES[tag] end
  if encoded[1] then
    call('HSET', KEYS[1], ARGV[2], table.concat(encoded))
  else
    call('HDEL', KEYS[1], ARGV[2])
  end
  version = string.format('%.0f', version + 1)
  call('HSET', KEYS[1], '#', version)
  -- May fail: the other processes also read the version with every sweep.
  local attempt = redis.pcall
  attempt('PUBLISH', ARGV[1], ARGV[2])
  return tonumber(version)
end
