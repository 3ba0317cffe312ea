-- Prelude of every script that changes one shard: its keys and arguments, and the only code that
-- moves a job between states. After the six keys of the shard come two per topic that the caller
-- knew of; a script that needs another topic's answers MOVED before it has written anything.
--
-- KEYS  1 pool  2 bucket  3 counts  4 lanes  5 graves  6 broken, then ready list and dead set per topic
-- ARGV  1 microseconds or ''  2 channel  3 origin  4 lane  5 sequence  6 number of topics, the topics,
--       then from ARGV[A] what the script itself takes
local POOL, BUCKET, COUNTS, LANES, GRAVES, BROKEN = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local NOW, NOW_UP, MICROS = clock(ARGV[1])
local known = tonumber(ARGV[6])
local A = 7 + known
local OK, GONE, LOST, MOVED, REFUSED = 1, 2, 3, 4, 5
local BROKEN_LIMIT = 10000

local topics = {}
for i = 1, known do
  topics[ARGV[6 + i]] = { ready = KEYS[5 + 2 * i], dead = KEYS[6 + 2 * i] }
end

-- What an earlier run of this same call answered: its lane still holds its sequence. A call that
-- comes after its lane's next one was given up long ago and must not happen any more.
local function recall()
  local saved = call('HGET', LANES, ARGV[4])
  if not saved then return nil end
  local sequence = unpack('>I6', saved)
  if sequence == tonumber(ARGV[5]) then return cmsgpack.unpack(sub(saved, 13)) end
  if sequence > tonumber(ARGV[5]) then return redis.error_reply('LATE the caller has given this call up') end
end

-- Keeps `reply` for a second run, and returns it.
local function remember(reply)
  call('HSET', LANES, ARGV[4], pack('>I6I6', ARGV[5], NOW) .. cmsgpack.pack(reply))
  return reply
end

local LETTERS = { 'd', 'r', 'v', 'x' }
local deltas, aside = {}, 0

local function count(topic, state, by)
  local field = LETTERS[state] .. topic
  deltas[field] = (deltas[field] or 0) + by
end

-- Writes the counts. The first ready job of a topic is announced to every process: while one is
-- ready they all know, or will find it when they look before they answer with less than was asked.
local function settle()
  for field, by in pairs(deltas) do
    if by ~= 0 then
      local left, topic = call('HINCRBY', COUNTS, field, by), sub(field, 2)
      if left <= 0 then
        call('HDEL', COUNTS, field)
        -- Whatever the list still holds is stale.
        if byte(field) == 114 and topics[topic] then call('UNLINK', topics[topic].ready) end
      elseif left == by and byte(field) == 114 then
        local pulse = call('HINCRBY', COUNTS, '#', 1)
        call('PUBLISH', ARGV[2], ARGV[3] .. ' ' .. string.format('%.0f', pulse) .. ' ' .. topic)
      end
    end
  end
  deltas = {}
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

local function push_ready(id, job, command)
  job.gen = (job.gen + 1) % 4294967296
  call(command, topics[job.topic].ready, pack('>I4I6', job.gen, NOW) .. id)
end

local function make_ready(id, job, due, command)
  leave(id, job, READY)
  job.due = due
  push_ready(id, job, command or 'RPUSH')
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

-- Moves what cannot be read out of the way. When the place for such things is full the record stays
-- in the pool, out of every index: nothing is dropped to save room.
local function set_aside(id, raw)
  aside = aside + 1
  call('ZREM', BUCKET, id)
  call('ZREM', GRAVES, id)
  if call('HLEN', BROKEN) < BROKEN_LIMIT then
    call('HSET', BROKEN, id, raw or '')
    if raw then call('HDEL', POOL, id) end
  end
end

-- The wait after an attempt, in ms: step n follows attempt n, the last repeats; nil without a list.
local function step(job)
  if not job.retry or job.retry == '' then return nil end
  local n = math.min(math.max(job.attempts, 1), #job.retry / 5)
  return (unpack('>I5', job.retry, 5 * n - 4))
end

local function used_up(job) return job.max > 0 and job.attempts >= job.max end

-- When a job is due that is to wait until the moment `ms`, or for `ms`; no delay is at once.
local function due_at(absolute, ms)
  if absolute then return math.max(ms, NOW) end
  return ms == 0 and NOW or NOW_UP + ms
end

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
  local stale = call('LLEN', topics[topic].ready) - (call('HGET', COUNTS, 'r' .. topic) or 0)
  return stale > 1000 and stale > (call('HGET', COUNTS, 'r' .. topic) or 0)
end
