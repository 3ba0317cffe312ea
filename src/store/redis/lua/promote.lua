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

-- The usual case, without taking the record apart: a delayed job that is due becomes ready. False when it is another.
local function wake(id, raw)
  local _, topic, flags = outline(raw, DELAYED)
  if not topic or flags > 3 or not topics[topic] then return false end
  local gen, due = unpack('>I4I6', raw, 3)
  if due > NOW then return false end
  gen = (gen + 1) % 4294967296
  call('ZREM', BUCKET, id)
  call('RPUSH', topics[topic].ready, pack('>I4I6', gen, NOW) .. id)
  call('HSET', POOL, id, pack('>BBI4', VERSION + READY, flags, gen) .. sub(raw, 7))
  count(topic, DELAYED, -1)
  count(topic, READY, 1)
  moved(topic, 1, 1, NOW - due)
  return true
end

for i = A + 1, #ARGV do
  local id = ARGV[i]
  local score = call('ZSCORE', BUCKET, id)
  local grave = retention and not score and call('ZSCORE', GRAVES, id)
  if (score and tonumber(score) <= NOW) or (grave and tonumber(grave) + retention <= NOW) then
    local raw = call('HGET', POOL, id)
    local job = not wake(id, raw) and open(raw)
    if job == nil then
      set_aside(id, raw)
    elseif job and topics[job.topic] then
      dispatch(id, job)
    elseif job then
      reply[1] = 1
    end
  end
end
settle()
reply[2] = aside
return reply
