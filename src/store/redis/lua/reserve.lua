#!lua flags=allow-oom
-- Reserves ready jobs of one topic. Looks at a bounded number of stale list entries in one run; the
-- ready jobs left tell the caller whether to come again.
--
-- ARGV[A..] topic, how many, their TTRs (I4 each, 0 for the job's own), their receipts (16 bytes each)
-- Reply     { ready jobs left, now, set aside, id, record, ms since ready, ... }
local STALE_LIMIT = 500
local topic, want, ttrs, receipts = ARGV[A], tonumber(ARGV[A + 1]), ARGV[A + 2], ARGV[A + 3]
local list = topics[topic].ready

local saved = recall()
if saved then
  if saved.err then return saved end
  local reply = { saved[1], saved[2], 0 }
  for i = 3, #saved, 3 do
    local raw = call('HGET', POOL, saved[i])
    local job = open(raw)
    if job and job.receipt == saved[i + 1] then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = saved[i], raw, saved[i + 2]
    end
  end
  return reply
end

local grants, saving, stale, granted = {}, {}, 0, 0

local function grant(id, job, since)
  granted = granted + 1
  local ttr = unpack('>I4', ttrs, 4 * granted - 3)
  if ttr == 0 then ttr = job.ttr end
  leave(id, job, RESERVED)
  job.attempts = job.attempts + 1
  job.receipt, job.till = sub(receipts, 16 * granted - 15, 16 * granted), NOW_UP + ttr
  call('ZADD', BUCKET, job.till, id)
  enter(id, job, RESERVED)
  local waited = math.max(NOW - since, 0)
  saving[#saving + 1], saving[#saving + 2], saving[#saving + 3] = id, job.receipt, waited
  grants[#grants + 1], grants[#grants + 2], grants[#grants + 3] = id, seal(job), waited
end

while granted < want and stale < STALE_LIMIT do
  local entries = call('LPOP', list, want - granted)
  if not entries then break end
  for _, entry in ipairs(entries) do
    local gen, since, id = read_entry(entry)
    local raw = call('HGET', POOL, id)
    local job = open(raw)
    if job and job.state == READY and job.gen == gen and job.topic == topic then
      grant(id, job, since)
    else
      stale = stale + 1
      if raw and not job then
        set_aside(id, raw)
        count(topic, READY, -1)
      end
    end
  end
end
settle()

local left = tonumber(call('HGET', COUNTS, 'r' .. topic) or 0)
if left > 0 and call('EXISTS', list) == 0 then
  -- Every ready job has an entry; without entries a count can only be left from a broken record.
  call('HDEL', COUNTS, 'r' .. topic)
  left = 0
end
local reply = { left, NOW, aside }
for i = 1, #grants do reply[3 + i] = grants[i] end
if granted > 0 then
  local keep = { left, NOW }
  for i = 1, #saving do keep[2 + i] = saving[i] end
  remember(keep)
end
return reply
