#!lua flags=allow-oom
-- Makes a reserved job a dead letter.
--
-- ARGV[A+1..] receipt, reason or '' with a leading '+' when given
local replayed = replayed_reply()
if replayed then return replayed end
local refused = receipt_fault(ARGV[A + 1]) or older_fault()
if refused then return refused end
if not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
local reason = nil
if ARGV[A + 2] ~= '' then reason = sub(ARGV[A + 2], 2) end
remember_attempt(JOB, BURIED, reason)
make_dead(ID, JOB, reason or 'buried')
return done()
