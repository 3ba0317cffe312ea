#!lua flags=no-writes
-- Returns the stored layout; after a loss of all data there is none.
--
-- KEYS  meta
-- Reply { format, number of shards, seed of host numbers }
return redis.call('HMGET', KEYS[1], 'format', 'shards', 'seed')
