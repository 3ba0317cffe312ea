#!lua flags=no-writes
-- Returns the stored layout, the mark of a move, and what identifies the store; after a loss of all data there is none.
--
-- KEYS  meta
-- Reply { format, number of shards, seed of host numbers, mark of a move, the mark that all shards have, the marks of the
--         stores whose loss was accepted, the mark of a store that a process misses here }, nil for what is not stored
return redis.call('HMGET', KEYS[1], 'format', 'shards', 'seed', 'move', 'marked', 'replaces', 'missed')
