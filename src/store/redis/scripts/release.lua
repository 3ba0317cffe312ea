#!lua flags=allow-oom
-- Gives a reserved job back, or makes it dead when its attempts are used.
--
-- ARGV[A+1..] receipt, delay in ms or '' for the schedule, reason or '' with a leading '+' when given
local seen = again()
if seen then return seen end
local refused = not_held(ARGV[A + 1])
if refused then return refused end

local reason = nil
if ARGV[A + 3] ~= '' then reason = sub(ARGV[A + 3], 2) end
local delay = tonumber(ARGV[A + 2])
if not delay then
  -- Without a list it backs off from 1 s, doubling to 10 min, so that a crash loop is slow.
  delay = step(JOB) or math.min(1000 * 2 ^ math.min(math.max(JOB.attempts - 1, 0), 16), 600000)
end
if (used_up(JOB) or delay == 0) and not topics[JOB.topic] then return { MOVED, JOB.topic } end
if used_up(JOB) then
  make_dead(ID, JOB, reason or 'attempts_used')
else
  JOB.reason = reason
  wait_again(ID, JOB, delay)
end
return done()
