#!lua
-- Adds jobs. When memory is full the whole call is refused, before anything is written.
--
-- ARGV[A..] per job its id and its record; the record's `due` holds a delay in ms, or a moment when `created` is odd. When that
--           is 2 or more, the job is not to be stored: only a repeat is recognised. Its generation is a fresh random number,
--           so that no stale entry of its id matches.
-- Reply     { set aside, per job 'C' created due | 'R' record | 'E' state due topic | 'X' when it would expire before it is due
--           | 'P' when it is not to be stored }
local GEN_AT, DUE_AT, CREATED_AT, TTR_AT, PRINT_AT = 3, 7, 17, 23, 30
local CREATED = 67 -- 'C'

-- The outcomes of an earlier run: a worker may have finished such a job since, and it must not be added again.
local saved = REPLAY or {}

-- The outcome for an id that exists already; nil when its record cannot be read.
local function existing_outcome(stored, raw)
  local old = decode(stored)
  if not old then return nil end
  if old.print ~= sub(raw, PRINT_AT, OUTLET_AT - 1) then
    return 'E' .. pack('>BI6', old.state, old.due) .. old.topic
  end
  return 'R' .. stored
end

-- The entries of the ready lists by outlet, and the scores and ids of delayed jobs and of those that expire, which are written
-- at the end.
local entries, delayed, expiring = {}, {}, {}

local function index_job(id, raw, state, due, expires)
  local outlet = sub(raw, HEAD + 1, HEAD + byte(raw, OUTLET_AT))
  if state == READY then
    local of_outlet = entries[outlet] or {}
    entries[outlet] = of_outlet
    of_outlet[#of_outlet + 1] = sub(raw, GEN_AT, DUE_AT - 1) .. pack('>I6', NOW) .. id
  else
    delayed[#delayed + 1] = due
    delayed[#delayed + 1] = id
  end
  if expires then
    expiring[#expiring + 1] = expires
    expiring[#expiring + 1] = id
  end
  count(outlet, state, 1, due)
  return 'C' .. pack('>I6I6', NOW, due)
end

-- The record with the moment at which the job expires in place of that of the caller, which does not know it; and the moment.
local function with_expiry(record, due)
  local outlet_length, high, low = byte(record, OUTLET_AT, HEAD)
  local at = HEAD + outlet_length + 1
  local ends = at + high * 256 + low
  local expires = resolve_expiry(record, value_at(record, at, ends, EXPIRY), due)
  local moment_at = value_at(record, at, ends, EXPIRES_AT)
  return sub(record, 1, moment_at - 1) .. pack('>I6', expires) .. sub(record, moment_at + 6), expires
end

local function add(id, raw)
  local due, _, absolute = unpack('>I6I4I6', raw, DUE_AT)
  local refusal = absolute >= 2 and 'P'
  due = due_at(absolute % 2 == 1, due)
  local state = due <= NOW and READY or DELAYED
  local record = pack('>B', VERSION + state) .. sub(raw, 2, DUE_AT - 1) .. pack('>I6', due)
    .. sub(raw, DUE_AT + 6, CREATED_AT - 1) .. pack('>I6', NOW) .. sub(raw, TTR_AT)
  local expires = nil
  if byte(raw, 2) % 4 >= 2 then record, expires = with_expiry(record, due) end
  if expires and expires < due then refusal = refusal or 'X' end
  if not refusal and call('HSETNX', JOBS, id, record) == 1 then return index_job(id, raw, state, due, expires) end
  local stored = call('HGET', JOBS, id)
  local outcome = existing_outcome(stored, raw)
  if outcome then return outcome end
  if refusal then return refusal end
  set_aside(id, stored)
  call('HSET', JOBS, id, record)
  return index_job(id, raw, state, due, expires)
end

check_shard(DUE)
for _, keys in pairs(outlets) do call('LLEN', keys.ready) end
for i = A, #ARGV, 2 do
  if byte(ARGV[i + 1], 2) % 4 >= 2 then call('ZCARD', EXPIRIES) break end
end
local reply, any_added = { 0 }, false
for i = A, #ARGV, 2 do
  local n = #reply
  local outcome = saved[n]
  if not outcome or outcome == '' then
    if IS_LATE then return refuse_late() end
    outcome = add(ARGV[i], ARGV[i + 1])
    saved[n] = byte(outcome) == CREATED and outcome or ''
    any_added = any_added or saved[n] ~= ''
  end
  reply[n + 1] = outcome
end
for outlet, of_outlet in pairs(entries) do
  in_parts(of_outlet, function(...) call('RPUSH', outlets[outlet].ready, ...) end)
end
in_parts(delayed, function(...) call('ZADD', DUE, ...) end)
in_parts(expiring, function(...) call('ZADD', EXPIRIES, ...) end)
write_counts()
if any_added then save_reply(saved) end
reply[1] = set_aside_count
return reply
