#!lua flags=allow-oom
-- Promotes the due jobs of every shard of a group. A second run continues where the first ended.
--
-- KEYS      per shard those of `shard_keys.lua`
-- ARGV[A..] most jobs, most unknown outlets, retention of dead letters in ms or '', the latest microseconds that a trusted
--           clock may show or '', per shard its origin
-- Reply     { microseconds until the next due job, or -1; 1 when more may be due; outlets of due jobs whose keys
--             are needed; microseconds of this server's clock; per shard a list: set aside,
--             per move: outlet, 1 ready 2 timed out 3 died 4 deleted 5 expired 6 expired and deleted, 1 when it is ready now,
--             ms late, and after 6 the id; or outlet, 0 when its list should be compacted, 0, 0 }
local room, unknown_limit, retention = tonumber(ARGV[A]), tonumber(ARGV[A + 1]), tonumber(ARGV[A + 2])
-- A clock that was set a moment ago deletes nothing.
local is_trusted = SERVER_MICROS <= (tonumber(ARGV[A + 3]) or math.huge)
local more, soonest, unknown, moves, has_outlets = 0, nil, {}, nil, false
-- The outlets whose ready jobs expired.
local left_ready = {}

-- Selects the n-th shard of the call for everything that follows.
local function select_shard(n)
  at, has_outlets = (n - 1) * (SHARD_KEYS + 2 * known), false
  JOBS, COUNTS, REPLAY_SLOTS, BROKEN, TIMELINE = KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4], KEYS[at + 5]
  -- written: the keys of the indexes behind `at`
  ORIGIN, set_aside_count, moves, left_ready = ARGV[A + 3 + n], 0, { 0 }, {}
end

-- Selects the outlets' keys of the same shard, once a job is due there.
local function load_outlets()
  if has_outlets then return end
  for i = 1, known do
    local ready = at + SHARD_KEYS + 2 * i - 1
    outlets[ARGV[7 + i]] = { ready = KEYS[ready], dead = KEYS[ready + 1] }
  end
  has_outlets = true
end

local function moved(outlet, kind, ready, late)
  local n = #moves
  moves[n + 1], moves[n + 2], moves[n + 3], moves[n + 4] = outlet, kind, ready, math.max(late, 0)
end

local function time_out(id, job)
  local late = NOW - job.till
  if waits_for_older(job) then
    end_older(id, job)
    moved(job.outlet, 2, job.state == READY and 1 or 0, late)
    return
  end
  remember_attempt(job, TTR_ENDED)
  local wants_none = value_at(job.others, 1, #job.others + 1, NO_LATE_FINISH)
  set_attribute(job, TIMED_OUT, not wants_none and job.receipt .. pack('>I4', job.attempts) or nil)
  if attempts_used_up(job) then
    make_dead(id, job, 'ttr_expired')
    moved(job.outlet, 3, 0, late)
  else
    local delay = retry_delay(job) or 0
    wait_until(id, job, due_at(false, delay), false)
    moved(job.outlet, 2, delay == 0 and 1 or 0, late)
  end
end

-- Makes a job that has expired a dead letter, or deletes it if it has asked for that and the clock is trusted.
local function expire(id, job)
  local late, outlet = NOW - job.expires, job.outlet
  if job.state == READY then left_ready[outlet] = true end
  local flags = byte(job.others, value_at(job.others, 1, #job.others + 1, EXPIRY))
  if flags % 2 == 1 and is_trusted then
    remove_job(id, job)
    moved(outlet, 6, 0, late)
    moves[#moves + 1] = id
  else
    make_dead(id, job, 'expired')
    moved(outlet, 5, 0, late)
  end
end

-- Indexes a job again whose index disagreed with the record, which is the truth.
local function reindex(id, job)
  for _, index in ipairs(indexes_behind(at)) do
    local moment = moment_in(index, job)
    if moment then call('ZADD', index.key, moment, id) else call('ZREM', index.key, id) end
  end
end

local function promote_job(id, job)
  if job.expires and job.state <= READY and job.expires <= NOW then
    expire(id, job)
  elseif job.state == DELAYED and job.due <= NOW then
    local late = NOW - job.due
    make_ready(id, job, job.due)
    moved(job.outlet, 1, 1, late)
  elseif job.state == RESERVED and job.till <= NOW then
    time_out(id, job)
  elseif job.state == DEAD and retention and job.died + retention <= NOW then
    local late = NOW - job.died - retention
    remove_job(id, job)
    moved(job.outlet, 4, 0, late)
  else
    reindex(id, job)
  end
end

-- The entries of the ready lists by outlet, the ids, and the ids and records of the jobs that `promote_delayed` has promoted,
-- which `write_promoted` writes: one command for many jobs costs less than one for each.
local entries, promoted, records = {}, {}, {}

local function write_promoted()
  if not promoted[1] then return end
  for outlet, of_outlet in pairs(entries) do
    in_parts(of_outlet, function(...) call('RPUSH', outlets[outlet].ready, ...) end)
  end
  in_parts(promoted, function(...) call('ZREM', DUE, ...) end)
  in_parts(records, function(...) call('HSET', JOBS, ...) end)
  entries, promoted, records = {}, {}, {}
end

-- The usual case, without decoding the record: a delayed job that is due becomes ready. Returns false in other cases.
local function promote_delayed(id, raw)
  local _, outlet, _, tag = parse_head(raw, DELAYED)
  if not outlet or not outlets[outlet] or (tag and tag <= DIED_AT) then return false end
  local flags, gen, due = unpack('>BI4I6', raw, 2)
  if due > NOW or flags % 4 >= 2 then return false end
  gen = (gen + 1) % 4294967296
  local of_outlet = entries[outlet]
  if not of_outlet then
    of_outlet = {}
    entries[outlet] = of_outlet
  end
  of_outlet[#of_outlet + 1] = pack('>I4I6', gen, NOW) .. id
  local n = #promoted
  promoted[n + 1] = id
  records[2 * n + 1], records[2 * n + 2] = id, pack('>BBI4', VERSION + READY, flags, gen) .. sub(raw, 7)
  count(outlet, DELAYED, -1, due)
  count(outlet, READY, 1)
  moved(outlet, 1, 1, NOW - due)
  return true
end

local function promote_id(id, raw)
  if promote_delayed(id, raw) then return end
  -- Ready jobs are in the order in which they were due.
  write_promoted()
  local job = decode(raw)
  if not job then
    set_aside(id, raw)
  elseif outlets[job.outlet] then
    promote_job(id, job)
  elseif not unknown[job.outlet] then
    if #unknown < unknown_limit then
      unknown[job.outlet], unknown[#unknown + 1] = true, job.outlet
    else
      more = 1
    end
  end
end

-- The records of due jobs; false where there is none. Reads every key that promoting them may write.
local function read_all(ids)
  local raws, checked = {}, {}
  if ids[1] then check_shard_and_indexes() end
  for place, id in ipairs(ids) do
    local raw = call('HGET', JOBS, id)
    local outlet = raw and #raw > HEAD and sub(raw, HEAD + 1, HEAD + byte(raw, OUTLET_AT))
    if outlet and outlets[outlet] and not checked[outlet] then
      checked[outlet] = true
      check_outlet(outlet)
    end
    raws[place] = raw
  end
  return raws
end

-- Promotes up to `room` entries of an index whose score is at most `until_ms`, and lowers `soonest` to when the next
-- one is due: `later` ms after its score.
local function promote_from(index, until_ms, later)
  local first = call('ZRANGE', index, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= until_ms then
    if room > 0 then
      local due = call('ZRANGEBYSCORE', index, '-inf', until_ms, 'LIMIT', 0, room)
      room = room - #due
      load_outlets()
      for place, raw in ipairs(read_all(due)) do promote_id(due[place], raw) end
      write_promoted()
    end
    local after = '(' .. string.format('%.0f', until_ms)
    first = call('ZRANGEBYSCORE', index, after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  if first[2] then soonest = math.min(soonest or math.huge, tonumber(first[2]) + later) end
end

local reply = { -1, 0, unknown, SERVER_MICROS }
for n = 1, #ARGV - A - 3 do
  select_shard(n)
  -- A move closes one shard after the other.
  if not refuse_fenced(call('HGET', COUNTS, '!'), ORIGIN) then
    -- Reservations first: there are few of them, while a million jobs may be due at the same time.
    promote_from(LEASES, NOW, 0)
    -- At most half: a million jobs may expire at the same time, too, and jobs of other topics are due.
    local rest = math.floor(room / 2)
    room = room - rest
    promote_from(EXPIRIES, NOW, 0)
    if room == 0 then more = 1 end
    room = room + rest
    promote_from(DUE, NOW, 0)
    if retention then promote_from(DEAD_BY_TIME, NOW - retention, retention) end
    write_counts()
    for outlet in pairs(left_ready) do
      if has_many_stale(outlet) then moved(outlet, 0, 0, 0) end
    end
  end
  moves[1] = set_aside_count
  reply[4 + n] = moves
end
if soonest then reply[1] = math.max(soonest * 1000 - MICROS, 0) end
if room == 0 then more = 1 end
reply[2] = more
return reply
