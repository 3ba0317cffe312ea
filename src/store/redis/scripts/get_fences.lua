#!lua flags=no-writes
-- Returns the fences or marks of shards.
--
-- KEYS  counts of each
-- Reply one text for each, '' if it has none
local fences = {}
for i, counts in ipairs(KEYS) do fences[i] = redis.call('HGET', counts, '!') or '' end
return fences
