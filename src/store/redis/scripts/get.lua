#!lua flags=no-writes
-- Returns the record of a job.
--
-- KEYS  jobs
-- ARGV  the caller's scope, the id
-- Reply { its record or nil }
return { in_scope(ARGV[1], call('HGET', KEYS[1], ARGV[2])) }
