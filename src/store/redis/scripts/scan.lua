-- Scanning a hash in several runs.

-- Returns the next cursor, which is '0' at the end, fields with their values, and whether the scan begins with them. A cursor
-- of the server means nothing at another one, nor at itself after a restart: so ours names the server, and where it is not
-- known a scan starts over. A field that is there from the first run to the last is in at least one reply, whatever fails over
-- meanwhile.
local server
local function scan(key, cursor, count)
  server = server or string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known, position = string.match(cursor, '^(%x+):(%d+)$')
  local goes_on = known == server
  local found = redis.call('HSCAN', key, goes_on and position or '0', 'COUNT', count)
  return found[1] == '0' and '0' or server .. ':' .. found[1], found[2], not goes_on
end
