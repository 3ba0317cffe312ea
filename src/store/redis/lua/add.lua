#!lua
-- Adds jobs. Refused as a whole when memory is full, before anything is written.
--
-- ARGV[A..] per job its id and its record; the record's `due` holds a delay in ms, or a moment when
-- `created` is 1. Its generation is a fresh random number, by which a second run knows its own work.
-- Reply     { set aside, per job 'C' created due | 'R' record | 'E' state due }
local GEN_AT, DUE_AT, CREATED_AT, TTR_AT = 3, 7, 17, 23

-- What to say of a job that is there already; nil when what is there cannot be read.
local function known_as(stored, raw)
  local old, job = open(stored), open(raw)
  if not old then return nil end
  if old.print ~= job.print then return 'E' .. pack('>BI6', old.state, old.due) end
  if (old.gen - job.gen) % 4294967296 < 64 then return 'C' .. pack('>I6I6', old.created, old.due) end
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

local reply = { 0 }
for i = A, #ARGV, 2 do
  local id, raw = ARGV[i], ARGV[i + 1]
  local due, _, absolute = unpack('>I6I4I6', raw, DUE_AT)
  due = due_at(absolute == 1, due)
  local state = due <= NOW and READY or DELAYED
  local record = pack('>B', VERSION + state) .. sub(raw, 2, DUE_AT - 1) .. pack('>I6', due)
    .. sub(raw, DUE_AT + 6, CREATED_AT - 1) .. pack('>I6', NOW) .. sub(raw, TTR_AT)
  local said
  if call('HSETNX', POOL, id, record) == 1 then
    said = index(id, raw, state, due)
  else
    local stored = call('HGET', POOL, id)
    said = known_as(stored, raw)
    if not said then
      set_aside(id, stored)
      call('HSET', POOL, id, record)
      said = index(id, raw, state, due)
    end
  end
  reply[#reply + 1] = said
end
settle()
reply[1] = aside
return reply
