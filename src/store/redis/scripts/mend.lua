#!lua flags=allow-oom
-- Mends a shard whose indexes or counts do not match its records, part by part. The records are the truth. A ready
-- list longer than the limit is not mended: when it runs out while jobs are still counted as ready,
-- the counts are wrong again, and these jobs get their entries.
--
-- ARGV[A..] step, cursor. Steps: 1 records, then each index, then the counts; for these, per count its field, its value
--           before the first step or '', and the number of such jobs
-- Reply     { next step or 0, next cursor, 1 when this run begins the scan of the records, so that the caller drops what
--             earlier runs tallied; number of mended entries, 1 when the counts are mended, too; outlets whose keys are
--             needed: the caller repeats the step with them; outlets with mended ready jobs; per field of the records that
--             were seen the field and its count }
local PAGE, BUDGET, LIST_LIMIT, TIMELINE_LIMIT = 250, 500, 10000, 5000
local step, cursor = tonumber(ARGV[A]), ARGV[A + 1]
local whole = step == 1 and cursor == '0' and call('HLEN', TIMELINE) <= TIMELINE_LIMIT
local spent, mended, begins, unknown, ready_outlets, seen = 0, 0, 0, {}, {}, {}

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

local function mend_record(id, job)
  compare_scores(id, job, function(_, key, moment)
    mended = mended + 1
    if moment then call('ZADD', key, moment, id) else call('ZREM', key, id) end
  end)
  tally_job(job)
  if job.state ~= READY then return end
  local known = entries_of(job.outlet)
  if known and not known[pack('>I4', job.gen) .. id] then
    mended, ready_outlets[job.outlet] = mended + 1, true
    call('RPUSH', outlets[job.outlet].ready, pack('>I4I6', job.gen, NOW) .. id)
  end
end

local function mend_records()
  local next_cursor, found, scan_begins = scan(JOBS, cursor, PAGE)
  local jobs = {}
  for i = 1, #found, 2 do
    local job = decode(found[i + 1])
    jobs[(i + 1) / 2] = job or false
    if job and not outlets[job.outlet] and not unknown[job.outlet] then
      unknown[job.outlet], unknown[#unknown + 1] = true, job.outlet
    end
  end
  if unknown[1] then return cursor end
  if scan_begins then begins = 1 end
  for n, job in ipairs(jobs) do
    local id = found[2 * n - 1]
    if job and not seen[id] then
      seen[id] = true
      mend_record(id, job)
    elseif not job then
      set_aside(id, found[2 * n])
    end
  end
  spent = spent + #jobs
  return next_cursor
end

-- Removes entries of an index whose job does not exist or does not belong there.
local function mend_index(index)
  local found = call('ZSCAN', index.key, cursor, 'COUNT', PAGE)
  for i = 1, #found[2], 2 do
    local job = decode(call('HGET', JOBS, found[2][i]))
    if not job or not moment_in(index, job) then
      mended = mended + 1
      call('ZREM', index.key, found[2][i])
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

-- Whether an outlet has a ready job that the scan has missed. The caller gives the keys of those whose count it would lower.
local function has_ready_job(field)
  if byte(field) ~= 114 then return false end
  local keys = outlets[sub(field, 2)]
  return keys and probe_list(keys.ready)
end

-- Corrects the counts that are as before the first step. If meanwhile a job has left such a count and another one has entered it,
-- the scan may have seen neither. The next comparison finds the wrong count then, but it must not hide a ready job until then.
local function mend_unchanged_counts()
  for i = A + 2, #ARGV, 3 do
    local field, before, number = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
    local stored = call('HGET', hash_of(field), field) or ''
    if stored == before and tonumber(stored) ~= number and (stored ~= '' or number > 0) then
      if number > 0 or not has_ready_job(field) then set_count(field, number) end
    end
  end
end

call('HLEN', TIMELINE)
for _, index in ipairs(indexes) do call('ZCARD', index.key) end
if step == #indexes + 2 then
  mend_unchanged_counts()
  step = 0
end
-- Not for the counts: a broken list must not keep them from being mended.
for outlet in pairs(step > 0 and outlets or {}) do check_outlet(outlet) end
while step > 0 and spent < BUDGET and not unknown[1] do
  if step == 1 then
    cursor = mend_records()
  else
    cursor = mend_index(indexes[step - 1])
  end
  if cursor == '0' and not unknown[1] then
    if step == 1 and whole then mend_counts() end
    step = step <= #indexes and step + 1 or 0
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
return { step, cursor, begins, mended, whole and 1 or 0, names, ready_list, tallied }
