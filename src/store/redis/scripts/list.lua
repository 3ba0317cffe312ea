#!lua flags=no-writes
-- Lists jobs of one shard from the index of their state, by (moment, id), behind a position.
--
-- KEYS  2 the index  3 the timeline, for delayed jobs of a topic
-- ARGV  9 moment and 10 id of the position  11 the moment where the list ends: the first one behind it, or the last one in
--       descending order
-- Reply { 1 at the end of the list, number of jobs examined, moment and id of the last one, the jobs }
local INDEX, BOUND = KEYS[2], tonumber(ARGV[11])
local COUNT_COST, SKIP_COST = 2, 6

-- The number of entries before a position, in ascending order also one at the position itself. Among equal moments it is
-- found by halving.
local function rank_of(moment, id)
  local low = call('ZCOUNT', INDEX, '-inf', '(' .. moment)
  if id == '' then return low end
  local high = low + call('ZCOUNT', INDEX, moment, moment)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = call('ZRANGE', INDEX, middle, middle)[1]
    if precedes(entry, id) or (ASCENDING and entry == id) then low = middle + 1 else high = middle end
  end
  return low
end

local function is_outside(moment)
  if ASCENDING then return moment >= BOUND end
  return moment < BOUND
end

-- Whether delayed jobs of the topic are due in a minute ('m') or hour ('h').
local function is_counted(unit, number)
  cost = cost + COUNT_COST
  return call('HGET', KEYS[3], unit .. pack('>I4', number) .. TOPIC)
end

-- Where to go on if no job of the topic is due in the minute of `moment`: at the next minute of this hour in which one is, or at
-- the end of the hour. Otherwise nil.
local busy_minute = nil
local function skip_from(moment)
  local minute = math.floor(moment / 60000)
  if minute == busy_minute then return nil end
  if is_counted('m', minute) then
    busy_minute = minute
    return nil
  end
  cost = cost + SKIP_COST
  local hour = math.floor(minute / 60)
  local step, last = ASCENDING and 1 or -1, ASCENDING and 60 * hour + 59 or 60 * hour
  local next_minute = last + step
  if is_counted('h', hour) then
    for n = minute + step, last, step do
      if is_counted('m', n) then
        next_minute = n
        break
      end
    end
  end
  return 60000 * (ASCENDING and next_minute or next_minute + 1)
end

-- The timeline of a shard was removed until the sweep has counted it again.
local can_skip = KEYS[3] and call('HLEN', KEYS[3]) > 0
local rank, moment, id, is_end = rank_of(ARGV[9], ARGV[10]), tonumber(ARGV[9]), ARGV[10], false
local size = can_skip and 4 or PAGE
while not is_end and not is_over() do
  local first = ASCENDING and rank or math.max(rank - size, 0)
  local last = ASCENDING and rank + size - 1 or rank - 1
  local page = last >= first and call('ZRANGE', INDEX, first, last, 'WITHSCORES') or {}
  local skip_to = nil
  is_end = #page < 2 * size
  for n = 1, #page, 2 do
    local at = ASCENDING and n or #page - n
    local score = tonumber(page[at + 1])
    local outside = is_outside(score)
    if not outside and can_skip then skip_to = skip_from(score) end
    if outside or skip_to or is_over() then
      is_end = outside
      break
    end
    id, moment = page[at], score
    examine(id, score)
  end
  if skip_to then
    moment, id, rank, size = skip_to, '', rank_of(skip_to, ''), 4
  else
    rank = ASCENDING and rank + size or rank - size
    size = math.min(4 * size, PAGE)
  end
end
return { is_end and 1 or 0, examined, moment, id, reply }
