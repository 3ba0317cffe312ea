#!lua flags=no-writes
-- All counts of a shard.
--
-- KEYS  counts
return redis.call('HGETALL', KEYS[1])
