#!lua flags=allow-oom
-- Mends a shard whose indexes or counts do not match its records, part by part. The records are the truth. A ready
-- list longer than the limit is not mended: when it runs out while jobs are still counted as ready,
-- the counts are wrong again, and these jobs get their entries.
--
-- ARGV[A..] step, cursor. Steps: 1 records, 2 due, 3 leases, 4 dead by time, 5 counts; for the last, per count its
--           field, its value before the first step or '', and the number of such jobs
-- Reply     { next step or 0, next cursor, number of mended entries, 1 when the counts are mended, too; outlets whose
--             keys are needed: the caller repeats the step with them; outlets with mended ready
--             jobs; per field of the records seen the field and its count }
local PAGE, BUDGET, LIST_LIMIT, TIMELINE_LIMIT = 250, 500, 10000, 5000
local step, cursor = tonumber(ARGV[A]), ARGV[A + 1]
local whole = step == 1 and cursor == '0' and call('HLEN', TIMELINE) <= TIMELINE_LIMIT
local spent, mended, unknown, ready_outlets, tally, seen = 0, 0, {}, {}, {}, {}

-- The expected score of a job in each index; nil when it should not be there.
local function due_score(job)
  if job.state == DELAYED then return job.due end
end
local function lease_score(job) return job.till end
local function death_score(job) return job.died end

local function fix_score(key, id, expected)
  local score = call('ZSCORE', key, id)
  if (score and tonumber(score)) == (expected or false) then return end
  mended = mended + 1
  if expected then call('ZADD', key, expected, id) else call('ZREM', key, id) end
end

-- The entries of an outlet's ready list by generation and id; false when there are too many.
local entries = {}
local function entries_of(outlet)
  local list = outlets[outlet].ready
  if entries[outlet] == nil then
    entries[outlet] = call('LLEN', list) <= LIST_LIMIT and {}
    for _, entry in ipairs(entries[outlet] and call('LRANGE', list, 0, -1) or {}) do
      if #entry > 10 then entries[outlet][sub(entry, 1, 4) .. sub(entry, 11)] = true end
    end
  end
  return entries[outlet]
end

local function add_to_tally(field) tally[field] = (tally[field] or 0) + 1 end

local function mend_record(id, job)
  fix_score(DUE, id, due_score(job))
  fix_score(LEASES, id, lease_score(job))
  fix_score(DEAD_BY_TIME, id, death_score(job))
  fix_score(outlets[job.outlet].dead, id, death_score(job))
  add_to_tally(count_field(job.outlet, job.state))
  if job.state == DELAYED then
    local minute, hour = timeline_fields(job.outlet, job.due)
    add_to_tally(minute)
    add_to_tally(hour)
  end
  if job.state ~= READY then return end
  local known = entries_of(job.outlet)
  if known and not known[pack('>I4', job.gen) .. id] then
    mended, ready_outlets[job.outlet] = mended + 1, true
    call('RPUSH', outlets[job.outlet].ready, pack('>I4I6', job.gen, NOW) .. id)
  end
end

local function mend_records()
  local found = call('HSCAN', JOBS, cursor, 'COUNT', PAGE)
  local jobs = {}
  for i = 1, #found[2], 2 do
    local job = decode(found[2][i + 1])
    jobs[(i + 1) / 2] = job or false
    if job and not outlets[job.outlet] and not unknown[job.outlet] then
      unknown[job.outlet], unknown[#unknown + 1] = true, job.outlet
    end
  end
  if unknown[1] then return cursor end
  for n, job in ipairs(jobs) do
    local id = found[2][2 * n - 1]
    if job and not seen[id] then
      seen[id] = true
      mend_record(id, job)
    elseif not job then
      set_aside(id, found[2][2 * n])
    end
  end
  spent = spent + #jobs
  return found[1]
end

-- Removes entries of an index whose job does not exist or does not belong there.
local function mend_index(key, score)
  local found = call('ZSCAN', key, cursor, 'COUNT', PAGE)
  for i = 1, #found[2], 2 do
    local job = decode(call('HGET', JOBS, found[2][i]))
    if not job or not score(job) then
      mended = mended + 1
      call('ZREM', key, found[2][i])
    end
  end
  spent = spent + #found[2] / 2
  return found[1]
end

local function set_count(field, number)
  mended = mended + 1
  local hash = hash_of(field)
  if number > 0 then call('HSET', hash, field, number) else call('HDEL', hash, field) end
  if byte(field) == 114 and number > 0 then ready_outlets[sub(field, 2)] = true end
end

-- Corrects all counts at once, when one run saw all records.
local function mend_counts()
  for _, hash in ipairs({ COUNTS, TIMELINE }) do
    local stored = call('HGETALL', hash)
    for i = 1, #stored, 2 do
      local field = stored[i]
      if field ~= '#' and field ~= '!' then
        if stored[i + 1] ~= string.format('%.0f', tally[field] or 0) then set_count(field, tally[field] or 0) end
        tally[field] = nil
      end
    end
  end
  for field, number in pairs(tally) do set_count(field, number) end
  tally = {}
end

-- Corrects the counts that have not changed since before the first step, because none of their jobs changed.
local function mend_unchanged_counts()
  for i = A + 2, #ARGV, 3 do
    local field, before, number = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
    local stored = call('HGET', hash_of(field), field) or ''
    if stored == before and tonumber(stored) ~= number and (stored ~= '' or number > 0) then
      set_count(field, number)
    end
  end
end

check_shard(DUE)
call('ZCARD', LEASES)
call('ZCARD', DEAD_BY_TIME)
for outlet in pairs(outlets) do check_outlet(outlet) end
if step == 5 then
  mend_unchanged_counts()
  step = 0
end
while step > 0 and spent < BUDGET and not unknown[1] do
  if step == 1 then
    cursor = mend_records()
  elseif step == 2 then
    cursor = mend_index(DUE, due_score)
  elseif step == 3 then
    cursor = mend_index(LEASES, lease_score)
  else
    cursor = mend_index(DEAD_BY_TIME, death_score)
  end
  if cursor == '0' and not unknown[1] then
    if step == 1 and whole then mend_counts() end
    step = step < 4 and step + 1 or 0
  end
end
whole = whole and (step ~= 1)
local ready_list, tallied = {}, {}
for outlet in pairs(ready_outlets) do
  ready_list[#ready_list + 1] = outlet
  announce(outlet)
end
for field, number in pairs(tally) do tallied[#tallied + 1], tallied[#tallied + 2] = field, number end
local names = {}
for n, outlet in ipairs(unknown) do names[n] = outlet end
return { step, cursor, mended, whole and 1 or 0, names, ready_list, tallied }
