#!lua flags=no-writes
-- Counts the delayed jobs of a topic on some shards by due time.
--
-- KEYS  per shard its timeline
-- ARGV  topic, then per part its unit, 'm' for minutes or 'h' for hours, its first number and how many numbers it has
-- Reply per part the number of jobs
local topic, reply = ARGV[1], {}
for i = 2, #ARGV, 3 do
  local fields, jobs = {}, 0
  for n = 0, ARGV[i + 2] - 1 do fields[n + 1] = ARGV[i] .. pack('>I4', ARGV[i + 1] + n) .. topic end
  for _, timeline in ipairs(KEYS) do
    -- Without its table, `unpack` is that of records.
    for _, count in ipairs(call('HMGET', timeline, _G.unpack(fields))) do jobs = jobs + (tonumber(count or 0) or 0) end
  end
  reply[#reply + 1] = jobs
end
return reply
