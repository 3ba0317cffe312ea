-- Scanning a hash in several runs.

-- Returns the next cursor, which is '0' at the end, and fields with their values. A cursor of the server means nothing at another
-- one, nor at itself after a restart: so ours names the server, and where it is not known a scan starts over. A field that is
-- there from the first run to the last is in at least one reply, whatever fails over meanwhile.
local function scan(key, cursor, count)
  local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known, at = string.match(cursor, '^(%x+):(%d+)$')
  local found = redis.call('HSCAN', key, known == server and at or '0', 'COUNT', count)
  return found[1] == '0' and '0' or server .. ':' .. found[1], found[2]
end
