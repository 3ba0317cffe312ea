#!lua flags=no-writes
-- Returns the stored layout, and the mark of a move; after a loss of all data there is none.
--
-- KEYS  meta
-- Reply { format, number of shards, seed of host numbers, mark of a move or nil }
return redis.call('HMGET', KEYS[1], 'format', 'shards', 'seed', 'move')
