-- Prelude of the scripts that move jobs between states. The three that run for every job (add,
-- reserve, finish) do without it: they cut and join the record's bytes instead, and the server builds
-- a script's functions anew on each run.

-- Reads every key that a move may write, before the first of them.
local function check_keys()
  check_shard()
  call('ZCARD', GRAVES)
  for topic in pairs(topics) do check_topic(topic) end
end

local function indexed(state) return state == DELAYED or state == RESERVED end

-- Out of the index of its state. A ready job's list entry goes stale when its generation moves on.
local function leave(id, job, next_state)
  count(job.topic, job.state, -1)
  if indexed(job.state) and not indexed(next_state) then
    call('ZREM', BUCKET, id)
  elseif job.state == DEAD then
    call('ZREM', GRAVES, id)
    call('ZREM', topics[job.topic].dead, id)
  end
  job.receipt, job.till, job.died = nil, nil, nil
end

local function enter(id, job, state)
  job.state = state
  count(job.topic, state, 1)
  call('HSET', POOL, id, seal(job))
end

local function make_delayed(id, job, due)
  leave(id, job, DELAYED)
  job.gen, job.due = (job.gen + 1) % 4294967296, due
  call('ZADD', BUCKET, due, id)
  enter(id, job, DELAYED)
end

local function push_ready(id, job, first)
  job.gen = (job.gen + 1) % 4294967296
  local list, entry = topics[job.topic].ready, pack('>I4I6', job.gen, NOW) .. id
  if first then call('LPUSH', list, entry) else call('RPUSH', list, entry) end
end

local function make_ready(id, job, due, first)
  leave(id, job, READY)
  job.due = due
  push_ready(id, job, first)
  enter(id, job, READY)
end

local function make_dead(id, job, reason)
  leave(id, job, DEAD)
  job.died, job.reason = NOW, reason
  call('ZADD', GRAVES, NOW, id)
  call('ZADD', topics[job.topic].dead, NOW, id)
  enter(id, job, DEAD)
end

local function forget(id, job)
  leave(id, job, nil)
  call('HDEL', POOL, id)
end

-- The wait after an attempt, in ms: step n follows attempt n, the last repeats; nil without a list.
local function step(job)
  if not job.retry or job.retry == '' then return nil end
  local n = math.min(math.max(job.attempts, 1), #job.retry / 5)
  return (unpack('>I5', job.retry, 5 * n - 4))
end

local function used_up(job) return job.max > 0 and job.attempts >= job.max end

-- Back to waiting after `delay` ms, 0 being ready at once.
local function wait_again(id, job, delay)
  if delay == 0 then
    make_ready(id, job, NOW)
  else
    make_delayed(id, job, NOW_UP + delay)
  end
end

-- Whether so many entries of a topic's ready list are stale that it should be compacted.
local function crowded(topic)
  local valid = counted('r' .. topic)
  local stale = call('LLEN', topics[topic].ready) - valid
  return stale > 1000 and stale > valid
end
