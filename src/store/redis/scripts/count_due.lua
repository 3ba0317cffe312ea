#!lua flags=no-writes
-- Counts the delayed jobs of all topics on some shards by due time.
--
-- KEYS  per shard its due jobs
-- ARGV  per part its first moment in ms, and the first moment behind it
-- Reply per part the number of jobs
local reply = {}
for i = 1, #ARGV, 2 do
  local jobs = 0
  for _, due in ipairs(KEYS) do jobs = jobs + call('ZCOUNT', due, ARGV[i], '(' .. ARGV[i + 1]) end
  reply[#reply + 1] = jobs
end
return reply
