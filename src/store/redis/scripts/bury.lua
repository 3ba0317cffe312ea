#!lua flags=allow-oom
-- Makes a reserved job a dead letter.
--
-- ARGV[A+1..] receipt, reason
local replayed = replayed_reply()
if replayed then return replayed end
local refused = receipt_fault(ARGV[A + 1])
if refused then return refused end
if not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
make_dead(ID, JOB, ARGV[A + 2])
return done()
