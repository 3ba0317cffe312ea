#!lua flags=allow-oom
-- Releases a reserved job, or makes it dead when its attempts are used up. Without a receipt, whichever worker holds it, in the
-- attempt with the given number if there is one.
--
-- ARGV[A+1..] receipt or '', 'after' | 'at' | '' for the schedule, ms or '', reason or '' with a leading '+' when given;
--             without a receipt then the number of the attempt or ''
local replayed = replayed_reply()
if replayed then return replayed end
local NOT_RESERVED, IS_REVOKED, refused = 6, ARGV[A + 1] == '', nil
if not IS_REVOKED then
  refused = receipt_fault(ARGV[A + 1])
elseif not JOB then
  refused = { GONE }
elseif JOB.state ~= RESERVED then
  refused = { NOT_RESERVED }
elseif ARGV[A + 5] ~= '' and tonumber(ARGV[A + 5]) ~= JOB.attempts then
  refused = { LOST }
end
refused = refused or older_fault()
if refused then return refused end

local reason = nil
if ARGV[A + 4] ~= '' then reason = sub(ARGV[A + 4], 2) end
local kind, ms = ARGV[A + 2], tonumber(ARGV[A + 3])
if kind == '' then
  -- Without a schedule the delay is 1 s and doubles up to 10 min, so that a crash loop is slow.
  ms = retry_delay(JOB) or math.min(1000 * 2 ^ math.min(math.max(JOB.attempts - 1, 0), 16), 600000)
end
local due = due_at(kind == 'at', ms)
if (attempts_used_up(JOB) or due <= NOW) and not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
remember_attempt(JOB, IS_REVOKED and REVOKED or RELEASED, reason)
if attempts_used_up(JOB) then
  make_dead(ID, JOB, reason or 'attempts_used')
else
  JOB.reason = reason
  wait_until(ID, JOB, due, kind == 'at')
end
return done()
