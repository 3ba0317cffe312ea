#!lua
-- Adds jobs. Refused as a whole when memory is full, before anything is written.
--
-- ARGV[A..] per job its id and its record; the record's `due` holds a delay in ms, or a moment when
-- `created` is 1. Its generation is a fresh random number, so that no stale entry of its id fits it.
-- Reply     { set aside, per job 'C' created due | 'R' record | 'E' state due }
local GEN_AT, DUE_AT, CREATED_AT, TTR_AT, PRINT_AT = 3, 7, 17, 23, 30
local CREATED = 67 -- 'C'

-- What an earlier run added stays said: a worker may have finished it since, and it must not come back.
local made = REPLAY or {}

-- What to say of a job that is there already; nil when what is there cannot be read.
local function known_as(stored, raw)
  local old = open(stored)
  if not old then return nil end
  if old.print ~= sub(raw, PRINT_AT, TOPIC_AT - 1) then return 'E' .. pack('>BI6', old.state, old.due) end
  return 'R' .. stored
end

local function index(id, raw, state, due)
  local topic = sub(raw, TOPIC_AT + 1, TOPIC_AT + byte(raw, TOPIC_AT))
  if state == READY then
    call('RPUSH', topics[topic].ready, sub(raw, GEN_AT, DUE_AT - 1) .. pack('>I6', NOW) .. id)
  else
    call('ZADD', BUCKET, due, id)
  end
  count(topic, state, 1)
  return 'C' .. pack('>I6I6', NOW, due)
end

local function add(id, raw)
  local due, _, absolute = unpack('>I6I4I6', raw, DUE_AT)
  due = due_at(absolute == 1, due)
  local state = due <= NOW and READY or DELAYED
  local record = pack('>B', VERSION + state) .. sub(raw, 2, DUE_AT - 1) .. pack('>I6', due)
    .. sub(raw, DUE_AT + 6, CREATED_AT - 1) .. pack('>I6', NOW) .. sub(raw, TTR_AT)
  if call('HSETNX', POOL, id, record) == 1 then return index(id, raw, state, due) end
  local stored = call('HGET', POOL, id)
  local said = known_as(stored, raw)
  if said then return said end
  set_aside(id, stored)
  call('HSET', POOL, id, record)
  return index(id, raw, state, due)
end

check_shard()
for topic in pairs(topics) do call('LLEN', topics[topic].ready) end
local reply, news = { 0 }, false
for i = A, #ARGV, 2 do
  local n = #reply
  local said = made[n]
  if not said or said == '' then
    if IS_LATE then return late() end
    said = add(ARGV[i], ARGV[i + 1])
    made[n] = byte(said) == CREATED and said or ''
    news = news or made[n] ~= ''
  end
  reply[n + 1] = said
end
settle()
if news then remember(made) end
reply[1] = aside
return reply
