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
  job.receipt, job.till, job.held, job.died = nil, nil, nil, nil
end

local function enter_state(id, job, state)
  job.state = state
  count(job.outlet, state, 1, job.due)
  call('HSET', JOBS, id, encode(job))
end

-- The attribute of a job whose due time is a moment: tag 11, empty.
local MOMENT_TAG, MOMENT = 11, pack('>BI2', 11, 0)

-- Notes whether the due time of a job is a moment that a client named.
local function set_due_kind(job, is_moment)
  local others, at = job.others, 1
  while at <= #others and byte(others, at) < MOMENT_TAG do
    local _, size = unpack('>BI2', others, at)
    at = at + 3 + size
  end
  local has = byte(others, at) == MOMENT_TAG
  if has ~= is_moment then
    job.others = sub(others, 1, at - 1) .. (is_moment and MOMENT or '') .. sub(others, has and at + 3 or at)
  end
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

-- Whether an outlet's ready list has so many stale entries that it should be compacted.
local function has_many_stale(outlet)
  local valid = counted('r' .. outlet)
  local stale = call('LLEN', outlets[outlet].ready) - valid
  return stale > 1000 and stale > valid
end
