-- Prelude of the scripts that remember the ids of jobs that are gone, or look them up. `job/dedup.rs` reads and writes the same
-- values: change both together.
--
-- KEYS  behind those of the outlets: what is remembered, a hash of ids, and the ids by when they are forgotten
local REMEMBERED, FORGET = KEYS[#KEYS - 1], KEYS[#KEYS]
local FINISHED, DELETED = 1, 2
local REMEMBERED_HEAD = 38 -- what precedes the topic
local FORGOTTEN_AT_ONCE = 1000 -- at most, so that no step takes long
local FORGOTTEN_BESIDE = 4 -- removed with each new id, so that their number does not grow
local forgotten_early = 0

local function check_remembered()
  call('HLEN', REMEMBERED)
  call('ZCARD', FORGET)
end

local function forget(id)
  call('HDEL', REMEMBERED, id)
  call('ZREM', FORGET, id)
end

-- Stores what is remembered of an id until `till`. Ids whose windows have passed make room for it, and beyond `most` those whose
-- windows end first.
local function put_remembered(id, value, till, most)
  for _, past in ipairs(call('ZRANGEBYSCORE', FORGET, '-inf', NOW, 'LIMIT', 0, FORGOTTEN_BESIDE)) do forget(past) end
  call('HSET', REMEMBERED, id, value)
  call('ZADD', FORGET, till, id)
  local excess = math.min(call('ZCARD', FORGET) - most, FORGOTTEN_AT_ONCE)
  if excess > 0 then
    for _, first in ipairs(call('ZRANGE', FORGET, 0, excess - 1)) do forget(first) end
    forgotten_early = forgotten_early + excess
  end
end

-- Remembers the id of a job that ends, if its topic wants that and `most` is not 0. This takes less memory than the job did.
local function remember_id(id, job, ending, most)
  if not job.dedup or most == 0 then return end
  local till = NOW_UP + job.dedup
  local revision = job.revision and '\1' .. job.revision or string.rep('\0', 9)
  put_remembered(id, pack('>BI6I6', ending, NOW, till) .. job.print .. revision .. job.topic, till, most)
end

-- What is remembered of an id, or nil.
local function remembered(id)
  local value = call('HGET', REMEMBERED, id)
  if not value or #value <= REMEMBERED_HEAD or unpack('>I6', value, 8) <= NOW then return nil end
  return value
end

-- The outcome of an add whose id is remembered: 'F' value when it repeats the request of a finished job, 'D' value for all else;
-- nil when the job is to be added.
local function ended_before(id, job, replaces)
  local value = remembered(id)
  if not value then return nil end
  if sub(value, REMEMBERED_HEAD + 1) ~= job.topic then return 'D' .. value end
  local is_finished = byte(value) == FINISHED
  if replaces then
    local revision = sub(value, 31, 38)
    if not job.revision or byte(value, 30) == 0 then return nil end
    if precedes(job.revision, revision) then return 'V' .. revision end
    if job.revision ~= revision then return nil end
    return (is_finished and 'F' or 'D') .. value
  end
  return (is_finished and sub(value, 14, 29) == job.print and 'F' or 'D') .. value
end
