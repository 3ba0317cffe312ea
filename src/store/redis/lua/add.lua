#!lua
-- Adds jobs. Refused as a whole when memory is full, before anything is written.
--
-- ARGV[A..] per job its id and its record; the record's `due` holds a delay in ms, or a moment when
-- `created` is 1. Its generation is a fresh random number, by which a second run knows its own work.
-- Reply     per job 'C' created due | 'R' record | 'E' state due
local replies = {}
for i = A, #ARGV, 2 do
  local id, job = ARGV[i], open(ARGV[i + 1])
  local raw = call('HGET', POOL, id)
  local old = open(raw)
  local reply
  if raw and not old then set_aside(id, raw) end
  if old and old.print ~= job.print then
    reply = 'E' .. pack('>BI6', old.state, old.due)
  elseif old and (old.gen - job.gen) % 4294967296 < 64 then
    reply = 'C' .. pack('>I6I6', old.created, old.due)
  elseif old then
    reply = 'R' .. raw
  else
    job.due = due_at(job.created == 1, job.due)
    job.created = NOW
    if job.due <= NOW then
      push_ready(id, job, 'RPUSH')
      enter(id, job, READY)
    else
      call('ZADD', BUCKET, job.due, id)
      enter(id, job, DELAYED)
    end
    reply = 'C' .. pack('>I6I6', job.created, job.due)
  end
  replies[#replies + 1] = reply
end
settle()
return { aside, replies }
