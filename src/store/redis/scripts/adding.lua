-- Prelude of the scripts that add jobs. They have `expiry.lua`, too.
--
-- A new record's `due` holds a delay in ms, or a moment when `created` is odd. When that has 2 in it, the job is not to be
-- stored: only a repeat is recognised. When it has 4 in it, the job is due at its moment although that has passed.
local GEN_AT, DUE_AT, CREATED_AT, TTR_AT, PRINT_AT = 3, 7, 17, 23, 30
local CREATED = 67 -- 'C'

-- The reply if a second run may not add what the first one did not; nil if it may, or if this is the first.
local function refuse_rest()
  if not REPLAY then return nil end
  if IS_LATE then return refuse_late() end
  return refuse_fenced(call('HGET', COUNTS, '!'), ORIGIN)
end

-- The outcome for an id that exists already; nil when its record cannot be read.
local function existing_outcome(stored, raw)
  local old = decode(stored)
  if not old then return nil end
  if old.print ~= sub(raw, PRINT_AT, OUTLET_AT - 1) then
    return 'E' .. pack('>BI6', old.state, old.due) .. old.topic
  end
  return 'R' .. stored
end

-- The entries of the ready lists by outlet, and the scores and ids of delayed jobs and of those that expire, which
-- `index_added` writes.
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
  local refusal = absolute % 4 >= 2 and 'P'
  if absolute < 4 then due = due_at(absolute % 2 == 1, due) end
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

-- Writes the indexes of the jobs that were added.
local function index_added()
  for outlet, of_outlet in pairs(entries) do
    in_parts(of_outlet, function(...) call('RPUSH', outlets[outlet].ready, ...) end)
  end
  in_parts(delayed, function(...) call('ZADD', DUE, ...) end)
  in_parts(expiring, function(...) call('ZADD', EXPIRIES, ...) end)
  entries, delayed, expiring = {}, {}, {}
end
