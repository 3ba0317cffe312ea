#!lua flags=no-writes
-- Returns all topics' settings and pauses, unless the caller has this version.
--
-- KEYS  settings
-- ARGV  the version that the caller has
-- Reply nil, or every field and value
if redis.call('HGET', KEYS[1], '#') == ARGV[1] then return false end
return redis.call('HGETALL', KEYS[1])
