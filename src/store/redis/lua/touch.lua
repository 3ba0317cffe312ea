#!lua flags=allow-oom
-- Extends a reservation. A second run extends it once more by the same, from a little later on.
--
-- ARGV[A+1..] receipt, TTR in ms or '' for the job's own
local refused = not_held(ARGV[A + 1])
if refused then return refused end
JOB.till = NOW_UP + (tonumber(ARGV[A + 2]) or JOB.ttr)
local raw = seal(JOB)
call('ZADD', BUCKET, JOB.till, ID)
call('HSET', POOL, ID, raw)
return { OK, raw, NOW, 0 }
