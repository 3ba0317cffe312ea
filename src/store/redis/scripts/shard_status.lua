#!lua flags=no-writes
-- Returns the status of some shards for the sweep.
--
-- KEYS  per shard its counts, jobs, due jobs, leases, dead letters by time, broken records and timeline
-- ARGV  the channels, '1' to compare the counts with the indexes
-- Reply { seconds, microseconds of this server's clock, the permissions that the user lacks, per shard the number of
--         its announcements, 1 when its counts do not match its indexes, and its fence or the mark of its store, '?' if it
--         has none of them but jobs, '' if it is empty }
local COUNTS_LIMIT, BROKEN_LIMIT = 20000, 10000
-- A key of a wrong type in one shard must not hide the status of the others.
local attempt = redis.pcall

-- The size of a key; nil when it is of another type.
local function size(command, key)
  local answer = attempt(command, key)
  if type(answer) == 'number' then return answer end
end

local function counts_are_wrong(counts, jobs, due, leases, dead_by_time, broken, timeline)
  local fields = size('HLEN', counts)
  if not fields or fields > COUNTS_LIMIT then return false end
  local sums, all = { d = 0, r = 0, v = 0, x = 0 }, call('HGETALL', counts)
  for i = 1, #all, 2 do
    local letter, number = sub(all[i], 1, 1), tonumber(all[i + 1])
    if all[i] ~= '#' and all[i] ~= '!' then
      if not sums[letter] or not number or number < 1 then return true end
      sums[letter] = sums[letter] + number
    end
  end
  local stored, aside = size('HLEN', jobs), size('HLEN', broken)
  local delayed, reserved, dead = size('ZCARD', due), size('ZCARD', leases), size('ZCARD', dead_by_time)
  if not (stored and aside and delayed and reserved and dead) then return false end
  -- The timeline of a shard with delayed jobs was removed, or that of one without was left.
  local minutes = size('HLEN', timeline)
  if minutes and (minutes > 0) ~= (delayed > 0) then return true end
  if sums.d ~= delayed or sums.v ~= reserved or sums.x ~= dead then return true end
  -- When the hash of broken records is full, they stay where they are and are not counted.
  return aside < BROKEN_LIMIT and sums.d + sums.r + sums.v + sums.x ~= stored
end

local reply = call('TIME')
reply[3] = missing()
for i = 1, #KEYS, 7 do
  local announced = attempt('HGET', KEYS[i], '#')
  reply[#reply + 1] = string.format('%.0f', type(announced) == 'string' and tonumber(announced) or 0)
  -- Without its table, `unpack` is that of records.
  local wrong = ARGV[3] == '1' and counts_are_wrong(_G.unpack(KEYS, i, i + 6))
  reply[#reply + 1] = wrong and 1 or 0
  local fence = attempt('HGET', KEYS[i], '!')
  if not fence then fence = size('HLEN', KEYS[i + 1]) == 0 and '' or '?' end
  reply[#reply + 1] = type(fence) == 'string' and fence or '0'
end
return reply
