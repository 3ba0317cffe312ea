#!lua flags=allow-oom
-- Moves what is due on one shard, after looking at each entry again. A second run finds nothing due.
--
-- ARGV[A..] retention of dead letters in ms or '', the ids
-- Reply     { 1 when something due has a topic that the caller did not know of, set aside,
--             per move: topic, 1 ready 2 expired 3 died 4 forgotten, 1 when it is ready now, ms late }
local retention, reply = tonumber(ARGV[A]), { 0, 0 }

local function moved(topic, kind, ready, late)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = topic, kind, ready, math.max(late, 0)
end

local function expire(id, job)
  local late = NOW - job.till
  if used_up(job) then
    make_dead(id, job, 'ttr_expired')
    moved(job.topic, 3, 0, late)
  else
    local delay = step(job) or 0
    wait_again(id, job, delay)
    moved(job.topic, 2, delay == 0 and 1 or 0, late)
  end
end

-- An index disagreed with the record, which is the truth.
local function reindex(id, job)
  call('ZREM', BUCKET, id)
  call('ZREM', GRAVES, id)
  if job.state == DELAYED then call('ZADD', BUCKET, job.due, id) end
  if job.state == RESERVED then call('ZADD', BUCKET, job.till, id) end
  if job.state == DEAD then call('ZADD', GRAVES, job.died, id) end
end

local function dispatch(id, job)
  if job.state == DELAYED and job.due <= NOW then
    local late = NOW - job.due
    make_ready(id, job, job.due)
    moved(job.topic, 1, 1, late)
  elseif job.state == RESERVED and job.till <= NOW then
    expire(id, job)
  elseif job.state == DEAD and retention and job.died + retention <= NOW then
    local late = NOW - job.died - retention
    forget(id, job)
    moved(job.topic, 4, 0, late)
  else
    reindex(id, job)
  end
end

for i = A + 1, #ARGV do
  local id = ARGV[i]
  local score = call('ZSCORE', BUCKET, id)
  local grave = retention and not score and call('ZSCORE', GRAVES, id)
  if (score and tonumber(score) <= NOW) or (grave and tonumber(grave) + retention <= NOW) then
    local raw = call('HGET', POOL, id)
    local job = open(raw)
    if not job then
      set_aside(id, raw)
    elseif topics[job.topic] then
      dispatch(id, job)
    else
      reply[1] = 1
    end
  end
end
settle()
reply[2] = aside
return reply
