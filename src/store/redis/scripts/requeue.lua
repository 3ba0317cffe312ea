#!lua flags=allow-oom
-- Makes a dead job wait again: attempts start at 0, the reason is cleared.
--
-- ARGV[A+1..] 'after' | 'at', ms, who requeues or ''
local replayed = replayed_reply()
if replayed then return replayed end
if not JOB then return { GONE } end
if JOB.state ~= DEAD then return { REFUSED, JOB.state } end
if not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
JOB.attempts, JOB.reason = 0, nil
remember(JOB, REQUEUED, NOW, 0, 0, ARGV[A + 3])
local is_moment = ARGV[A + 1] == 'at'
wait_until(ID, JOB, due_at(is_moment, tonumber(ARGV[A + 2])), is_moment)
return done()
