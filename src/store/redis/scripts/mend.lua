#!lua flags=allow-oom
-- Mends a shard whose indexes or counts are not those of its records, part by part. The record is the truth. A ready
-- list that is longer than the limit is left alone: when it is used up while jobs are still counted as ready,
-- the counts are wrong again, and these jobs get their entries.
--
-- ARGV[A..] step, cursor. Steps: 1 records, 2 bucket, 3 graves, 4 counts; for the last, per count its field, its
--           value before the first step or '', and how many such jobs there are
-- Reply     { next step or 0, next cursor, how many things were mended, 1 when the counts are mended, too; topics that
--             the caller did not know of: it runs the same step again with them; topics with ready jobs that were
--             mended; per count of the records seen its field and how many }
local PAGE, BUDGET, LIST_LIMIT = 250, 500, 10000
local step, cursor = tonumber(ARGV[A]), ARGV[A + 1]
local whole = step == 1 and cursor == '0'
local spent, mended, strangers, woken, tally, seen = 0, 0, {}, {}, {}, {}

local function place_of(job)
  if job.state == DELAYED then return job.due end
  if job.state == RESERVED then return job.till end
end

local function put(key, id, place)
  local score = call('ZSCORE', key, id)
  if (score and tonumber(score)) == (place or false) then return end
  mended = mended + 1
  if place then call('ZADD', key, place, id) else call('ZREM', key, id) end
end

-- The entries of a topic's ready list as generation and id; nil when there are too many.
local entries = {}
local function entries_of(topic)
  local list = topics[topic].ready
  if entries[topic] == nil then
    entries[topic] = call('LLEN', list) <= LIST_LIMIT and {}
    for _, entry in ipairs(entries[topic] and call('LRANGE', list, 0, -1) or {}) do
      if #entry > 10 then entries[topic][sub(entry, 1, 4) .. sub(entry, 11)] = true end
    end
  end
  return entries[topic]
end

local function mend_record(id, job)
  put(BUCKET, id, place_of(job))
  put(GRAVES, id, job.died)
  put(topics[job.topic].dead, id, job.died)
  local field = LETTERS[job.state] .. job.topic
  tally[field] = (tally[field] or 0) + 1
  if job.state ~= READY then return end
  local known = entries_of(job.topic)
  if known and not known[pack('>I4', job.gen) .. id] then
    mended, woken[job.topic] = mended + 1, true
    call('RPUSH', topics[job.topic].ready, pack('>I4I6', job.gen, NOW) .. id)
  end
end

local function mend_records()
  local found = call('HSCAN', POOL, cursor, 'COUNT', PAGE)
  local jobs = {}
  for i = 1, #found[2], 2 do
    local job = open(found[2][i + 1])
    jobs[(i + 1) / 2] = job or false
    if job and not topics[job.topic] and not strangers[job.topic] then
      strangers[job.topic], strangers[#strangers + 1] = true, job.topic
    end
  end
  if strangers[1] then return cursor end
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

-- Index entries that lead to no job which should be there.
local function mend_index(key, place)
  local found = call('ZSCAN', key, cursor, 'COUNT', PAGE)
  for i = 1, #found[2], 2 do
    local job = open(call('HGET', POOL, found[2][i]))
    if not job or not place(job) then
      mended = mended + 1
      call('ZREM', key, found[2][i])
    end
  end
  spent = spent + #found[2] / 2
  return found[1]
end

local function set_count(field, number)
  mended = mended + 1
  if number > 0 then call('HSET', COUNTS, field, number) else call('HDEL', COUNTS, field) end
  if byte(field) == 114 and number > 0 then woken[sub(field, 2)] = true end
end

-- All counts at once, when all records were seen in this run.
local function mend_counts()
  local stored = call('HGETALL', COUNTS)
  for i = 1, #stored, 2 do
    local field = stored[i]
    if field ~= '#' then
      if stored[i + 1] ~= string.format('%.0f', tally[field] or 0) then set_count(field, tally[field] or 0) end
      tally[field] = nil
    end
  end
  for field, number in pairs(tally) do set_count(field, number) end
  tally = {}
end

-- Those counts that have not changed since before the first step, so that nothing happened to their jobs.
local function mend_quiet_counts()
  for i = A + 2, #ARGV, 3 do
    local field, before, number = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
    local stored = call('HGET', COUNTS, field) or ''
    if stored == before and tonumber(stored) ~= number and (stored ~= '' or number > 0) then
      set_count(field, number)
    end
  end
end

check_shard()
call('ZCARD', GRAVES)
for topic in pairs(topics) do check_topic(topic) end
if step == 4 then
  mend_quiet_counts()
  step = 0
end
while step > 0 and spent < BUDGET and not strangers[1] do
  if step == 1 then
    cursor = mend_records()
  elseif step == 2 then
    cursor = mend_index(BUCKET, place_of)
  else
    cursor = mend_index(GRAVES, function(job) return job.died end)
  end
  if cursor == '0' and not strangers[1] then
    if step == 1 and whole then mend_counts() end
    step = step < 3 and step + 1 or 0
  end
end
whole = whole and (step ~= 1)
local topics_woken, tallied = {}, {}
for topic in pairs(woken) do
  topics_woken[#topics_woken + 1] = topic
  announce(topic)
end
for field, number in pairs(tally) do tallied[#tallied + 1], tallied[#tallied + 2] = field, number end
local names = {}
for n, topic in ipairs(strangers) do names[n] = topic end
return { step, cursor, mended, whole and 1 or 0, names, topics_woken, tallied }
