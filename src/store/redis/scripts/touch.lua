#!lua flags=allow-oom
-- Extends a reservation, and sets the job's note if one is given.
--
-- ARGV[A+1..] receipt, TTR in ms or '' for the job's own, the note or ''

-- Of a second run, too: the reservation may have ended since the first.
local refused = receipt_fault(ARGV[A + 1])
if refused then return refused end
local replayed = replayed_reply()
if replayed then return replayed end
if waits_for_older(JOB) then return { REPLACED, JOB.outlet } end
JOB.till = NOW_UP + (tonumber(ARGV[A + 2]) or JOB.ttr)
if ARGV[A + 3] ~= '' then set_attribute(JOB, NOTE, pack('>I6', NOW) .. ARGV[A + 3]) end
call('ZADD', LEASES, JOB.till, ID)
call('HSET', JOBS, ID, encode(JOB))
return done()
