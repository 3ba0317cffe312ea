#!lua flags=no-writes
-- Returns the statistics of a topic on some shards. Searches only a limited number of entries.
--
-- KEYS  per shard its counts, jobs, due jobs, and the ready list of each outlet
-- ARGV  topic, number of entries to search, the outlets
-- Reply { outlets with ready jobs that the call did not name; per shard delayed, ready, reserved, dead, next due or -1,
--         due time of the oldest ready job of the named outlets or -1 }
local READY_DEPTH, HOSTS = 20, 256
local topic, depth = ARGV[1], ARGV[2] - 1
local named, unnamed, reply = {}, {}, {}
for i = 3, #ARGV do named[ARGV[i]] = i end
-- The entries to search are shared by the outlets.
local share = math.max(math.floor(READY_DEPTH / math.max(#ARGV - 2, 1)), 1)
local fields = { 'd' .. topic, 'v' .. topic, 'x' .. topic, 'r' .. topic }
for host = 0, HOSTS - 1 do fields[5 + host] = string.format('r%s>%02x', topic, host) end

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
  for _, entry in ipairs(call('LRANGE', list, 0, 5 * share - 1)) do
    local gen, _, id = read_entry(entry)
    local job = decode(call('HGET', jobs, id))
    if job and job.state == READY and job.gen == gen then
      if oldest < 0 or job.due < oldest then oldest = job.due end
      seen = seen + 1
      if seen == share then break end
    end
  end
  return oldest
end

reply[1] = unnamed
for i = 1, #KEYS, 3 + #ARGV - 2 do
  -- Without its table, `unpack` is that of records.
  local counts = call('HMGET', KEYS[i], _G.unpack(fields))
  for n, number in ipairs(counts) do counts[n] = math.max(tonumber(number or 0) or 0, 0) end
  local ready, oldest = 0, -1
  for n = 4, #fields do
    if counts[n] > 0 then
      ready = ready + counts[n]
      local outlet = sub(fields[n], 2)
      if named[outlet] then
        local due = oldest_ready(KEYS[i + 1], KEYS[i + named[outlet]])
        if due >= 0 and (oldest < 0 or due < oldest) then oldest = due end
      elseif not unnamed[outlet] then
        unnamed[outlet], unnamed[#unnamed + 1] = true, outlet
      end
    end
  end
  local due = counts[1] > 0 and next_due(KEYS[i + 1], KEYS[i + 2]) or -1
  for _, value in ipairs({ counts[1], ready, counts[2], counts[3], due, oldest }) do reply[#reply + 1] = value end
end
return reply
