-- Prelude of every script that changes one shard: its arguments, its counts, and how it recognises a second run. The
-- outlets are those that the caller knew; a script that needs the keys of another one replies MOVED before it has written
-- anything.
--
-- KEYS  those of `shard_keys.lua`
-- ARGV  1 microseconds or ''  2 deadline by this server's clock in microseconds  3 channel  4 origin
--       5 replay slot or ''  6 sequence  7 number of outlets, the outlets, then from ARGV[A] the script's own arguments
local at = 0 -- how many keys precede those of the shard: a promotion selects one shard after the other
local ORIGIN = ARGV[4]
local NOW, NOW_UP, MICROS, SERVER_MICROS = clock(ARGV[1])
local known = tonumber(ARGV[7])
local A = 8 + known
local OK, GONE, LOST, MOVED, REFUSED, EXPIRES_FIRST, EXPIRED, LATE_FINISH, REPLACED = 1, 2, 3, 4, 5, 8, 9, 10, 11
local BROKEN_LIMIT = 10000
local STALE_PROBE = 100 -- entries of a ready list that are checked before it is deleted

for i = 1, known do
  outlets[ARGV[7 + i]] = { ready = KEYS[SHARD_KEYS + 2 * i - 1], dead = KEYS[SHARD_KEYS + 2 * i] }
end

-- The reply of an earlier run of this same call, whose sequence is still in the slot, or nil. It is valid
-- even after the deadline. If the slot holds a later sequence, the caller gave this call up.
local REPLAY = nil
if ARGV[5] ~= '' then
  local saved = call('HGET', REPLAY_SLOTS, ARGV[5])
  if saved then
    local sequence, own = unpack('>I6', saved), tonumber(ARGV[6])
    if sequence > own then return refuse_late() end
    if sequence == own then REPLAY = cmsgpack.unpack(sub(saved, 13)) end
  end
end
local IS_LATE = SERVER_MICROS > tonumber(ARGV[2])
if IS_LATE and not REPLAY then return refuse_late() end
local refused = denied()
if not refused and not REPLAY then
  local fence = call('HGET', COUNTS, '!')
  refused = is_emptied(fence, JOBS) and refuse_emptied() or refuse_fenced(fence, ORIGIN)
end
if refused then return refused end

-- Nothing may fail after the first write, because the server does not roll a script back. So each script reads every key
-- that it writes before it writes any: a key of a wrong type fails then. A command run by `attempt` may fail, and the
-- sweep recovers it.
local attempt = redis.pcall

-- Checks the counts and an index. Each script reads the jobs in any case.
local function check_shard(index)
  call('ZCARD', index)
  call('HLEN', COUNTS)
  if index == DUE then call('HLEN', TIMELINE) end
end

local function check_outlet(outlet)
  call('LLEN', outlets[outlet].ready)
  call('ZCARD', outlets[outlet].dead)
end

-- Saves `reply` for a second run, and returns it.
local function save_reply(reply)
  call('HSET', REPLAY_SLOTS, ARGV[5], pack('>I6I6', ARGV[6], NOW) .. cmsgpack.pack(reply))
  return reply
end

-- Per state and outlet. A batch has many jobs of few outlets, so the names of the fields are made when they are written.
local deltas, set_aside_count = {}, 0

local timeline_deltas = {}

-- Counts a job that enters or leaves a state. A delayed one, due at `due`, counts in the timeline, too.
local function count(outlet, state, by, due)
  local of_state = deltas[state]
  if not of_state then
    of_state = {}
    deltas[state] = of_state
  end
  of_state[outlet] = (of_state[outlet] or 0) + by
  if state == DELAYED then
    local minute, hour = timeline_fields(outlet, due)
    timeline_deltas[minute] = (timeline_deltas[minute] or 0) + by
    timeline_deltas[hour] = (timeline_deltas[hour] or 0) + by
  end
end

-- The hash that contains a count.
local function hash_of(field)
  local letter = byte(field)
  return (letter == 109 or letter == 104) and TIMELINE or COUNTS
end

-- A stored count; 0 when it is not a number.
local function counted(field) return tonumber(call('HGET', COUNTS, field) or 0) or 0 end

-- Adds to a count and returns it. A count that is not a number was written by another program: it restarts at 0,
-- and the sweep mends it.
local function add_to_count(field, by)
  local left = redis.pcall('HINCRBY', COUNTS, field, by)
  if type(left) == 'number' then return left end
  call('HSET', COUNTS, field, math.max(by, 0))
  return math.max(by, 0)
end

-- Whether a ready list has a job among its first entries, and how many of these it has.
local function probe_list(list)
  local entries = attempt('LRANGE', list, 0, STALE_PROBE - 1)
  if entries.err then return true, 0 end
  for _, entry in ipairs(entries) do
    local gen, _, id = read_entry(entry)
    local job = decode(call('HGET', JOBS, id))
    if job and job.state == READY and job.gen == gen then return true, #entries end
  end
  return false, #entries
end

-- Deletes a ready list that should contain only stale entries, because no ready job is counted. If the count
-- is wrong, the list stays.
local function delete_stale(list)
  local has_job, length = probe_list(list)
  if length > 0 and not has_job then attempt('UNLINK', list) end
end

-- Announces to every process that an outlet has ready jobs. The sweep recovers a lost announcement by its number.
local function announce(outlet)
  local number = add_to_count('#', 1)
  attempt('PUBLISH', ARGV[3], ORIGIN .. ' ' .. string.format('%.0f', number) .. ' ' .. outlet)
end

-- Writes the timeline, with a command or two for many fields: each command of a script costs more than a field.
local function write_timeline()
  local fields = {}
  for field, by in pairs(timeline_deltas) do
    if by ~= 0 then fields[#fields + 1] = field end
  end
  for first = 1, #fields, 1000 do
    local last, kept, gone = math.min(first + 999, #fields), {}, {}
    -- Without its table, `unpack` is that of records.
    for i, stored in ipairs(call('HMGET', TIMELINE, _G.unpack(fields, first, last))) do
      local field = fields[first + i - 1]
      local left = (tonumber(stored or 0) or 0) + timeline_deltas[field]
      if left > 0 then
        kept[#kept + 1], kept[#kept + 2] = field, left
      else
        gone[#gone + 1] = field
      end
    end
    if kept[1] then call('HSET', TIMELINE, _G.unpack(kept)) end
    if gone[1] then call('HDEL', TIMELINE, _G.unpack(gone)) end
  end
  timeline_deltas = {}
end

-- Runs a function with parts of many arguments. One command for many of them costs less than one for each.
local PART = 1000 -- even, for pairs
local function in_parts(arguments, run)
  for first = 1, #arguments, PART do
    -- Without its table, `unpack` is that of records.
    run(_G.unpack(arguments, first, math.min(first + PART - 1, #arguments)))
  end
end

-- The counts to add to each field.
local function deltas_by_field()
  local fields = {}
  for state, by_outlet in pairs(deltas) do
    for outlet, by in pairs(by_outlet) do
      local field = count_field(outlet, state)
      fields[field] = (fields[field] or 0) + by
    end
  end
  deltas = {}
  return fields
end

-- Writes the counts, and returns those that changed. The first ready job of an outlet is announced to every
-- process: while one is ready, all of them know, or find it when they probe before they return fewer jobs than wanted,
-- or soon after.
local function write_counts()
  local lefts = {}
  write_timeline()
  for field, by in pairs(deltas_by_field()) do
    if by ~= 0 then
      local left, outlet = add_to_count(field, by), sub(field, 2)
      lefts[field] = math.max(left, 0)
      if left <= 0 then
        call('HDEL', COUNTS, field)
        if byte(field) == 114 and outlets[outlet] then delete_stale(outlets[outlet].ready) end
      elseif left == by and byte(field) == 114 then
        announce(outlet)
      end
    end
  end
  return lefts
end

-- Sets a broken entry aside. When the hash for broken records is full, the record stays
-- where it is, out of every index: nothing is deleted to save space.
local function set_aside(id, raw)
  set_aside_count = set_aside_count + 1
  for i = FIRST_INDEX, SHARD_KEYS do attempt('ZREM', KEYS[at + i], id) end
  local full = attempt('HLEN', BROKEN)
  if type(full) == 'number' and full < BROKEN_LIMIT then
    local kept = attempt('HSET', BROKEN, id, raw or '')
    if raw and type(kept) == 'number' then attempt('HDEL', JOBS, id) end
  end
end

-- The due time of a job that waits until the moment `ms`, or for `ms`; without a delay it is due at once.
local function due_at(absolute, ms)
  if absolute then return math.max(ms, NOW) end
  return ms == 0 and NOW or NOW_UP + ms
end
