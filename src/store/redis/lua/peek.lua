#!lua flags=no-writes
-- What is due on some shards, and when the next thing will be. Changes nothing; the promotion looks again.
--
-- KEYS  per shard its pool, bucket and graves
-- ARGV  microseconds or '', how many at most, retention of dead letters in ms or ''
-- Reply { microseconds until the next, or -1; per shard a list id, topic or '' when it is broken, ... }
local NOW, _, MICROS = clock(ARGV[1])
local room, retention = tonumber(ARGV[2]), tonumber(ARGV[3])
local soonest, reply = nil, { -1 }

local function look(key, pool, until_ms, offset, found)
  if room > 0 then
    for _, id in ipairs(call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, room)) do
      local raw = call('HGET', pool, id)
      local _, topic = outline(raw, DELAYED)
      if not topic or not string.find(topic, TOPIC) then
        local job = open(raw)
        topic = job and job.topic or ''
      end
      found[#found + 1], found[#found + 2] = id, topic
      room = room - 1
    end
  end
  local following = call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', until_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if following[2] then soonest = math.min(soonest or math.huge, tonumber(following[2]) + offset) end
end

for i = 1, #KEYS, 3 do
  local found = {}
  look(KEYS[i + 1], KEYS[i], NOW, 0, found)
  if retention then look(KEYS[i + 2], KEYS[i], NOW - retention, retention, found) end
  reply[#reply + 1] = found
end
if soonest then reply[1] = math.max(soonest * 1000 - MICROS, 0) end
return reply
