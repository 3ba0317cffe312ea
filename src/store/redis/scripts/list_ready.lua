#!lua flags=no-writes
-- Lists ready jobs of one shard from the lists of some outlets, one list after the other.
--
-- KEYS  2 and up: the lists
-- ARGV  where the last run ended in the first list, or nothing: 9 id, 10 generation and 11 moment of an entry  12 its index at
--       that time, in descending order from the end, as a negative number
-- Reply { 1 at the end of the last list, number of jobs examined, number of the list where the run ended, id, generation,
--       moment and index of its last entry; the jobs }

-- How many entries are searched for the one where the last run ended: around its index, and from the start.
local NEAR, FAR = 1000, 20000

-- The index of an entry, which was `index` at the end of the last run; nil when it is not found.
local function find(list, entry, index)
  local first = math.max(index - NEAR, 0)
  for n, other in ipairs(index + NEAR >= 0 and call('LRANGE', list, first, index + NEAR) or {}) do
    if other == entry then return first + n - 1 end
  end
  return call('LPOS', list, entry, 'RANK', ASCENDING and 1 or -1, 'MAXLEN', FAR) or nil
end

-- The index where a run starts. Workers pop jobs from the head of a list, so when the entry where the last run ended is gone,
-- so are all before it, and the list starts over; in descending order nothing is left then, unless the head is older. A list
-- that is being compacted moves its first entries to its end: in descending order, a run may miss them meanwhile.
local function start_of(list, length)
  local start = ASCENDING and 0 or length - 1
  if not ARGV[9] then return start end
  local entry = pack('>I4I6', ARGV[10], ARGV[11]) .. ARGV[9]
  local found = find(list, entry, ASCENDING and ARGV[12] + 0 or length + ARGV[12])
  if found then return ASCENDING and found + 1 or found - 1 end
  local _, since = read_entry(call('LINDEX', list, 0) or '')
  if not ASCENDING and since and since > tonumber(ARGV[11]) then return -1 end
  return start
end

local ended_in, last, last_index = 1, nil, 0

-- Examines the entries of a list from an index on.
local function walk(list, at, length)
  while not is_over() do
    local first = ASCENDING and at or math.max(at - PAGE + 1, 0)
    local entries = at >= 0 and call('LRANGE', list, first, ASCENDING and at + PAGE - 1 or at) or {}
    if #entries == 0 then return true end
    for n = 1, #entries do
      if is_over() then return false end
      local entry = entries[ASCENDING and n or #entries - n + 1]
      local _, _, id = read_entry(entry)
      if id ~= '' then last, last_index = entry, ASCENDING and at + n - 1 or at - n + 1 - length end
      examine(id, 0, sub(entry, 1, 4))
    end
    at = ASCENDING and at + #entries or at - #entries
  end
  return false
end

local is_end = true
for n = 2, #KEYS do
  local list = KEYS[n]
  local length = call('LLEN', list)
  cost = cost + READ_COST
  ended_in, last = n - 1, nil
  is_end = walk(list, n == 2 and start_of(list, length) or (ASCENDING and 0 or length - 1), length)
  if not is_end then break end
end
local gen, since, id = read_entry(last or '')
return { is_end and 1 or 0, examined, ended_in, id, gen or 0, since or 0, last_index, reply }
