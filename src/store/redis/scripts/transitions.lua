-- Prelude of the scripts that change the state of jobs. The three that run for every job (add,
-- reserve, finish) do without it: they cut and join the record's bytes instead, because the server creates
-- a script's functions anew on each run.

-- Reads every key that a change of state may write, so that a key of a wrong type fails before the first write.
local function check_shard_and_indexes()
  call('HLEN', COUNTS)
  call('HLEN', TIMELINE)
  for i = FIRST_INDEX, SHARD_KEYS do call('ZCARD', KEYS[at + i]) end
end

local function check_keys()
  check_shard_and_indexes()
  for outlet in pairs(outlets) do check_outlet(outlet) end
end

-- The index of the jobs in this state; nil for ready jobs.
local function index_of(state)
  -- written: the index of a state
end

-- Whether jobs in this state are in a key of their outlet or topic, which a script that moves them needs.
local function has_outlet_key(state) return state == READY or state == DEAD end

-- Removes a job from the index of its state. The list entry of a ready job becomes stale when its generation increases.
local function leave_state(id, job, next_state)
  count(job.outlet, job.state, -1, job.due)
  local index = index_of(job.state)
  if index and job.state ~= next_state then call('ZREM', index, id) end
  if job.state == DEAD then call('ZREM', outlets[job.outlet].dead, id) end
  if job.expires and job.state <= READY then call('ZREM', EXPIRIES, id) end
  job.receipt, job.till, job.held, job.died = nil, nil, nil, nil
end

local function enter_state(id, job, state)
  job.state = state
  count(job.outlet, state, 1, job.due)
  if job.expires and state <= READY then call('ZADD', EXPIRIES, job.expires, id) end
  call('HSET', JOBS, id, encode(job))
end

-- Sets, replaces or removes (without a value) an attribute that other scripts copy.
local function set_attribute(job, tag, value)
  local others, at = job.others, 1
  while at <= #others and byte(others, at) < tag do
    local _, size = unpack('>BI2', others, at)
    at = at + 3 + size
  end
  local ends = at
  if byte(others, at) == tag then
    local _, size = unpack('>BI2', others, at)
    ends = at + 3 + size
  end
  job.others = sub(others, 1, at - 1) .. (value and pack('>BI2', tag, #value) .. value or '') .. sub(others, ends)
end

-- Notes whether the due time of a job is a moment that a client named.
local function set_due_kind(job, is_moment) set_attribute(job, MOMENT, is_moment and '' or nil) end

-- Changes what was asked about a job's expiry: '' keeps it, '-' removes it, and all else is a value of EXPIRY, whose flag 4
-- keeps what happens at the expiry.
local function change_expiry(job, change)
  if change == '' then return end
  local had = job.flags % 4 >= 2
  if change == '-' then
    set_attribute(job, EXPIRY, nil)
    set_attribute(job, EXPIRES_AT, nil)
    set_attribute(job, EXPIRY_MOMENT, nil)
    job.flags, job.expires = had and job.flags - 2 or job.flags, nil
    return
  end
  local flags = byte(change)
  if flags >= 4 then
    local old = had and byte(job.others, value_at(job.others, 1, #job.others + 1, EXPIRY)) or 0
    flags = flags - 4 + old % 2
  end
  set_attribute(job, EXPIRY, pack('>B', flags) .. sub(change, 2))
  job.flags = had and job.flags or job.flags + 2
end

-- Computes anew when a job expires, from the due time that a client asked for. Returns whether it would expire before that.
local function count_expiry(job, due, is_moment)
  if job.flags % 4 < 2 then return false end
  local asks_moment = nil
  job.expires, asks_moment = resolve_expiry(job.others, value_at(job.others, 1, #job.others + 1, EXPIRY), due)
  set_attribute(job, EXPIRES_AT, pack('>I6', job.expires))
  set_attribute(job, EXPIRY_MOMENT, (asks_moment or is_moment) and '' or nil)
  return job.expires < due
end

local function make_delayed(id, job, due)
  leave_state(id, job, DELAYED)
  job.gen, job.due = (job.gen + 1) % 4294967296, due
  call('ZADD', DUE, due, id)
  enter_state(id, job, DELAYED)
end

local function push_ready(id, job, first)
  job.gen = (job.gen + 1) % 4294967296
  local list, entry = outlets[job.outlet].ready, pack('>I4I6', job.gen, NOW) .. id
  if first then call('LPUSH', list, entry) else call('RPUSH', list, entry) end
end

local function make_ready(id, job, due, first)
  leave_state(id, job, READY)
  job.due = due
  push_ready(id, job, first)
  enter_state(id, job, READY)
end

local function make_dead(id, job, reason)
  leave_state(id, job, DEAD)
  job.died, job.reason = NOW, reason
  call('ZADD', DEAD_BY_TIME, NOW, id)
  call('ZADD', outlets[job.outlet].dead, NOW, id)
  enter_state(id, job, DEAD)
end

local function remove_job(id, job)
  leave_state(id, job, nil)
  call('HDEL', JOBS, id)
end

-- The delay after an attempt, in ms: step n follows attempt n, the last one repeats; nil without a schedule.
local function retry_delay(job)
  if not job.retry or job.retry == '' then return nil end
  local n = math.min(math.max(job.attempts, 1), #job.retry / 5)
  return (unpack('>I5', job.retry, 5 * n - 4))
end

local function attempts_used_up(job) return job.max > 0 and job.attempts >= job.max end

-- Makes a job wait until a moment, which a client named or which is the end of a delay; it is ready at once when that has come.
local function wait_until(id, job, due, is_moment)
  set_due_kind(job, is_moment)
  if due <= NOW then make_ready(id, job, due) else make_delayed(id, job, due) end
end

-- Ends the reservation of an older version: the job that replaced it waits for its due time.
local function end_older(id, job)
  if job.due <= NOW then make_ready(id, job, job.due) else make_delayed(id, job, job.due) end
end

-- Whether an outlet's ready list has so many stale entries that it should be compacted.
local function has_many_stale(outlet)
  local valid = counted('r' .. outlet)
  local stale = call('LLEN', outlets[outlet].ready) - valid
  return stale > 1000 and stale > valid
end
