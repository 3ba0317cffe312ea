#!lua flags=allow-oom
-- Makes a dead job wait again: attempts start at 0, the reason and the note are cleared.
--
-- ARGV[A+1..] 'after' | 'at', ms, the change of the expiry (`change_expiry`), who requeues or ''
local replayed = replayed_reply()
if replayed then return replayed end
if not JOB then return { GONE } end
if JOB.state ~= DEAD then return { REFUSED, JOB.state } end
if not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
if ARGV[A + 3] == '' and JOB.expires and JOB.expires <= NOW then return { EXPIRED } end
local is_moment = ARGV[A + 1] == 'at'
local due = due_at(is_moment, tonumber(ARGV[A + 2]))
change_expiry(JOB, ARGV[A + 3])
if count_expiry(JOB, due, is_moment) then return { EXPIRES_FIRST } end
set_attribute(JOB, TIMED_OUT, nil)
set_attribute(JOB, NOTE, nil)
JOB.attempts, JOB.reason = 0, nil
remember(JOB, REQUEUED, NOW, 0, 0, ARGV[A + 4])
wait_until(ID, JOB, due, is_moment)
return done()
