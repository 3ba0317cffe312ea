#!lua flags=allow-oom
-- Makes a reserved job a dead letter.
--
-- ARGV[A+1..] receipt, reason
local seen = again()
if seen then return seen end
local refused = not_held(ARGV[A + 1])
if refused then return refused end
if not topics[JOB.topic] then return { MOVED, JOB.topic } end
make_dead(ID, JOB, ARGV[A + 2])
return done()
