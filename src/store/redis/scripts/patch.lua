#!lua
-- Changes a delayed or ready job in place; its fingerprint stays. Refused when memory is full, because the
-- new body may be larger.
--
-- ARGV[A+1..] 'after' | 'at' | '', ms, TTR or '', max attempts or '', schedule or '' with a leading '+'
--             when given, the change of the expiry (`change_expiry`), body or '', who patches or ''
local replayed = replayed_reply()
if replayed then return replayed end
if not JOB then return { GONE } end
if JOB.state == RESERVED or JOB.state == DEAD then return { REFUSED, JOB.state } end
local kind, ms = ARGV[A + 1], tonumber(ARGV[A + 2])
local due = kind ~= '' and due_at(kind == 'at', ms)
if due and (JOB.state == READY or due <= NOW) and not outlets[JOB.outlet] then
  return { MOVED, JOB.outlet }
end

JOB.ttr = tonumber(ARGV[A + 3]) or JOB.ttr
JOB.max = tonumber(ARGV[A + 4]) or JOB.max
if ARGV[A + 5] ~= '' then
  JOB.retry = sub(ARGV[A + 5], 2)
  if JOB.retry == '' then JOB.retry = nil end
end
set_attribute(JOB, TIMED_OUT, nil)
local had_expiry = JOB.expires
change_expiry(JOB, ARGV[A + 6])
if due or ARGV[A + 6] ~= '' then
  local is_moment = kind == 'at' or (not due and value_at(JOB.others, 1, #JOB.others + 1, MOMENT) ~= nil)
  if count_expiry(JOB, due or JOB.due, is_moment) then return { EXPIRES_FIRST } end
end
if ARGV[A + 7] ~= '' then JOB.body = ARGV[A + 7] end
if due then remember_reschedule(JOB, due, ARGV[A + 8]) end

local was = JOB.state
if had_expiry and not JOB.expires then call('ZREM', EXPIRIES, ID) end
if not due then
  if JOB.expires then call('ZADD', EXPIRIES, JOB.expires, ID) end
  call('HSET', JOBS, ID, encode(JOB))
else
  wait_until(ID, JOB, due, kind == 'at')
end
write_counts()
-- A ready job with a new due time has left a stale entry.
return done(due and was == READY and has_many_stale(JOB.outlet) and 1 or 0)
