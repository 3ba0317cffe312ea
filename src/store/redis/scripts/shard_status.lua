#!lua flags=no-writes
-- Returns the status of some shards for the sweep.
--
-- KEYS  per shard those of `shard_keys.lua`, without outlets, the schedules and the agenda
-- ARGV  the channels, '1' to compare the counts with the indexes and the agenda with the schedules
-- Reply { seconds, microseconds of this server's clock, the permissions that the user lacks, per shard the number of
--         its announcements, 1 when its counts do not match its indexes, 1 when its agenda does not match its schedules, and
--         its fence or the mark of its store, '?' if it has none of them but jobs, '' if it is empty }
local COUNTS_LIMIT, BROKEN_LIMIT = 20000, 10000
-- A key of a wrong type in one shard must not hide the status of the others.
local attempt = redis.pcall

-- The size of a key; nil when it is of another type.
local function size(command, key)
  local answer = attempt(command, key)
  if type(answer) == 'number' then return answer end
end

-- Whether the counts of the shard whose keys follow the first `at` keys do not match its indexes.
local function counts_are_wrong(at)
  local jobs, counts, broken, timeline = KEYS[at + 1], KEYS[at + 2], KEYS[at + 4], KEYS[at + 5]
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
  local sizes = {}
  for _, index in ipairs(indexes_behind(at)) do
    if index.state then sizes[LETTERS[index.state]] = size('ZCARD', index.key) or false end
  end
  for _, entries in pairs(sizes) do
    if not entries then return false end
  end
  if not (stored and aside) then return false end
  -- The timeline of a shard with delayed jobs was removed, or that of one without was left.
  local minutes = size('HLEN', timeline)
  if minutes and (minutes > 0) ~= (sizes.d > 0) then return true end
  for letter, entries in pairs(sizes) do
    if sums[letter] ~= entries then return true end
  end
  -- When the hash of broken records is full, they stay where they are and are not counted.
  return aside < BROKEN_LIMIT and sums.d + sums.r + sums.v + sums.x ~= stored
end

-- Whether the agenda of the shard lacks a schedule, or has an entry without one. Moments are not compared: for that, all
-- contents would have to be read.
local function agenda_is_wrong(at)
  local schedules, agenda = KEYS[at + SHARD_KEYS + 1], KEYS[at + SHARD_KEYS + 2]
  local stored, entries = size('HLEN', schedules), size('ZCARD', agenda)
  if not (stored and entries) or stored + entries > COUNTS_LIMIT then return false end
  local unlisted = {}
  for _, name in ipairs(call('HKEYS', schedules)) do unlisted[name] = true end
  for _, name in ipairs(call('ZRANGE', agenda, 0, -1)) do
    if not unlisted[name] then return true end
    unlisted[name] = nil
  end
  for name in pairs(unlisted) do
    if next_moment(call('HGET', schedules, name)) then return true end
  end
  return false
end

local reply = call('TIME')
reply[3] = missing()
local compares = ARGV[3] == '1'
for at = 0, #KEYS - 1, SHARD_KEYS + 2 do
  local jobs, counts = KEYS[at + 1], KEYS[at + 2]
  local announced = attempt('HGET', counts, '#')
  reply[#reply + 1] = string.format('%.0f', type(announced) == 'string' and tonumber(announced) or 0)
  reply[#reply + 1] = compares and counts_are_wrong(at) and 1 or 0
  reply[#reply + 1] = compares and agenda_is_wrong(at) and 1 or 0
  local fence = attempt('HGET', counts, '!')
  if not fence then fence = size('HLEN', jobs) == 0 and '' or '?' end
  reply[#reply + 1] = type(fence) == 'string' and fence or '0'
end
return reply
