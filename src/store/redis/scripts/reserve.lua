#!lua flags=allow-oom
-- Reserves ready jobs of one outlet. Skips a limited number of stale list entries in one run; the number of
-- ready jobs left tells the caller whether to call again.
--
-- ARGV[A..] number of jobs, their TTRs (I4 each, 0 for the job's own), their receipts (16 bytes each), who reserves them: per
--           run of jobs their number (I2), the length of the name (I2), the name
-- Reply     { ready jobs left, now, set aside, id, record, ms since ready, ... }
local STALE_LIMIT, DUE_AT = 500, 7
local outlet, wanted, ttrs, receipts, actors = ARGV[8], tonumber(ARGV[A]), ARGV[A + 1], ARGV[A + 2], ARGV[A + 3]
local list = outlets[outlet].ready

if REPLAY then
  local reply = { REPLAY[1], REPLAY[2], 0 }
  for i = 3, #REPLAY, 3 do
    local raw = call('HGET', JOBS, REPLAY[i])
    local job = decode(raw)
    if job and job.receipt == REPLAY[i + 1] then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = REPLAY[i], raw, REPLAY[i + 2]
    end
  end
  return reply
end

-- The record of a ready job as a reserved one, and the end of its reservation; nil when it is not that ready job, and nil and
-- true when it has expired.
local function reserve_record(raw, gen, ttr, receipt, by)
  local ends, job_outlet, length, tag = parse_head(raw, READY)
  if job_outlet ~= outlet or (tag and tag <= DIED_AT) then return nil end
  local flags, job_gen, due, attempts, _, own_ttr = unpack('>BI4I6I4I6I4', raw, 2)
  if job_gen ~= gen then return nil end
  if flags % 4 >= 2 then
    local expires_at = value_at(raw, ends + 1, ends + length + 1, EXPIRES_AT)
    if not expires_at then return nil end
    if unpack('>I6', raw, expires_at) <= NOW then return nil, true end
  end
  local till = NOW_UP + (ttr > 0 and ttr or own_ttr)
  return pack('>BBI4I6I4', VERSION + RESERVED, flags, gen, due, attempts + 1) .. sub(raw, 17, OUTLET_AT)
    .. pack('>I2', length + 31 + #by) .. outlet .. pack('>BI2c16I6I6', LEASE, 28 + #by, receipt, till, NOW) .. by
    .. sub(raw, ends + 1), till
end

-- Who reserves the n-th job; n never decreases.
local run_at, run_ends, actor = 1, 0, ''
local function actor_of(n)
  while n > run_ends do
    local run, length, at = unpack('>I2I2', actors, run_at)
    actor, run_ends, run_at = sub(actors, at, at + length - 1), run_ends + run, at + length
  end
  return actor
end

check_shard(LEASES)
call('HLEN', JOBS)
local grants, saved, stale, granted, is_blocked = {}, {}, 0, 0, false
-- The deadlines and ids, and the ids and records, of the jobs that were reserved. One command writes many jobs for less than one
-- for each, and no call reserves too many for that. `is_reserved` has their ids: any other entry of such a job is stale.
local leases, records, is_reserved = {}, {}, {}

-- A job that has expired is delayed and overdue from here on: the next promotion moves it. If a key that this writes is of a wrong
-- type, the job stays ready, and the call fails unless it reserves another one.
local function pass_over(id, raw, entry)
  if type(attempt('ZCARD', DUE)) ~= 'number' or type(attempt('HLEN', TIMELINE)) ~= 'number' then
    call('RPUSH', list, entry)
    is_blocked = true
    return
  end
  local due = unpack('>I6', raw, DUE_AT)
  call('ZADD', DUE, due, id)
  call('HSET', JOBS, id, pack('>B', VERSION + DELAYED) .. sub(raw, 2))
  count(outlet, READY, -1)
  count(outlet, DELAYED, 1, due)
end

while granted < wanted and stale < STALE_LIMIT do
  local entries = call('LPOP', list, wanted - granted)
  if not entries then break end
  for _, entry in ipairs(entries) do
    local gen, since, id = read_entry(entry)
    local raw = not is_reserved[id] and call('HGET', JOBS, id)
    local ttr = unpack('>I4', ttrs, 4 * granted + 1)
    local receipt = sub(receipts, 16 * granted + 1, 16 * granted + 16)
    local record, till = reserve_record(raw, gen, ttr, receipt, actor_of(granted + 1))
    if record then
      local pair = 2 * granted
      leases[pair + 1], leases[pair + 2] = string.format('%d', till), id
      records[pair + 1], records[pair + 2] = id, record
      granted, is_reserved[id] = granted + 1, true
      -- If this fails, a promotion finds that the index disagrees.
      if byte(record, 2) % 4 >= 2 then attempt('ZREM', EXPIRIES, id) end
      local n, waited = 3 * granted, math.max(NOW - since, 0)
      saved[n], saved[n + 1], saved[n + 2] = id, receipt, waited
      grants[n + 1], grants[n + 2], grants[n + 3] = id, record, waited
    elseif till then
      stale = stale + 1
      pass_over(id, raw, entry)
    else
      stale = stale + 1
      if raw and not decode(raw) then
        set_aside(id, raw)
        count(outlet, READY, -1)
      end
    end
  end
end
if granted > 0 then
  call('ZADD', LEASES, _G.unpack(leases))
  call('HSET', JOBS, _G.unpack(records))
end

count(outlet, READY, -granted)
count(outlet, RESERVED, granted)
local left = write_counts()['r' .. outlet]
if is_blocked and granted == 0 then return redis.error_reply('WRONGTYPE an index or the timeline is of another type') end
if not left then
  left = counted('r' .. outlet)
  if left > 0 and call('LLEN', list) == 0 then
    -- Every ready job has an entry, so the count is wrong; if jobs lost their entries, the sweep finds them.
    call('HDEL', COUNTS, 'r' .. outlet)
    left = 0
  end
end
grants[1], grants[2], grants[3] = left, NOW, set_aside_count
if granted > 0 then
  saved[1], saved[2] = left, NOW
  save_reply(saved)
end
return grants
