#!lua flags=no-writes
-- Returns the records of the first of these jobs, up to about 1 MiB.
--
-- KEYS  jobs
-- ARGV  ids
-- Reply { for each of these jobs its record, or nil }
local LIMIT = 1048576
local reply, bytes = {}, 0
for i, id in ipairs(ARGV) do
  local raw = redis.call('HGET', KEYS[1], id)
  reply[i], bytes = raw, bytes + (raw and #raw or 0)
  if bytes >= LIMIT then break end
end
return reply
