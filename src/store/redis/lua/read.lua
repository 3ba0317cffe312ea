#!lua flags=no-writes
-- The records of jobs.
--
-- KEYS  pool
-- ARGV  ids
-- Reply per job its record or nil
return redis.call('HMGET', KEYS[1], unpack(ARGV))
