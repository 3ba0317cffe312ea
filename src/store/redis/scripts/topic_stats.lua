#!lua flags=no-writes
-- Returns the statistics of a topic on some shards. Searches only a limited number of entries.
--
-- KEYS  per shard its counts, jobs, due jobs and the topic's ready list
-- ARGV  topic, number of entries to search
-- Reply per shard delayed, ready, reserved, dead, next due or -1, due time of the oldest ready or -1
local READY_DEPTH = 20
local topic, depth, reply = ARGV[1], ARGV[2] - 1, {}

local function next_due(jobs, due)
  local ids = call('ZRANGE', due, 0, depth)
  for _, id in ipairs(ids) do
    local job = decode(call('HGET', jobs, id))
    if job and job.state == DELAYED and job.topic == topic then return job.due end
  end
  return -1
end

-- Jobs queue by the moment they became ready, which is about their due time.
local function oldest_ready(jobs, list)
  local oldest, seen = -1, 0
  for _, entry in ipairs(call('LRANGE', list, 0, depth)) do
    local gen, _, id = read_entry(entry)
    local job = decode(call('HGET', jobs, id))
    if job and job.state == READY and job.gen == gen then
      if oldest < 0 or job.due < oldest then oldest = job.due end
      seen = seen + 1
      if seen == READY_DEPTH then break end
    end
  end
  return oldest
end

for i = 1, #KEYS, 4 do
  local counts = call('HMGET', KEYS[i], 'd' .. topic, 'r' .. topic, 'v' .. topic, 'x' .. topic)
  for state = 1, 4 do reply[#reply + 1] = math.max(tonumber(counts[state] or 0) or 0, 0) end
  reply[#reply + 1] = counts[1] and next_due(KEYS[i + 1], KEYS[i + 2]) or -1
  reply[#reply + 1] = counts[2] and oldest_ready(KEYS[i + 1], KEYS[i + 3]) or -1
end
return reply
