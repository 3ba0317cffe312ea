#!lua flags=no-writes
-- The layout as it is stored, which after a loss of all data it is not.
--
-- KEYS  meta
-- Reply { format, number of shards }
return redis.call('HMGET', KEYS[1], 'format', 'shards')
