#!lua flags=no-writes
-- Returns all notices of a kind, or one.
--
-- KEYS  notices
-- ARGV  microseconds or '', the letter of the kind, id or ''
-- Reply { now in milliseconds, per notice its id, when it was written, and its text }
local STAMP = 6
local reply = { (clock(ARGV[1])) }
local function add(id, value)
  if #value < STAMP then return end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, unpack('>I6', value), sub(value, STAMP + 1)
end
if ARGV[3] ~= '' then
  local value = call('HGET', KEYS[1], ARGV[2] .. ARGV[3])
  if value then add(ARGV[3], value) end
else
  local all = call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if sub(all[i], 1, 1) == ARGV[2] then add(sub(all[i], 2), all[i + 1]) end
  end
end
return reply
