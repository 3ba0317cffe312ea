#!lua flags=no-writes
-- Lists the outlets that have ready jobs on a shard, for a process that starts or missed an announcement.
--
-- KEYS  counts
local reply = {}
for _, field in ipairs(call('HKEYS', KEYS[1])) do
  if byte(field) == 114 then reply[#reply + 1] = sub(field, 2) end
end
return reply
