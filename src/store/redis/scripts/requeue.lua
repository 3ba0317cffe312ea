#!lua flags=allow-oom
-- Makes a dead job wait again: attempts start at 0, the reason is cleared.
--
-- ARGV[A..] the caller's scope, the id, 'after' | 'at', ms, who requeues or ''
-- Reply     { a code, the job's record if it was requeued, its outlet if the keys of the outlet are needed, its state if it is
--           not dead, otherwise '', now if it was requeued }
local SCOPE, ID = ARGV[A], ARGV[A + 1]
local function add_record(reply)
  if reply[1] == OK then reply[2], reply[3] = in_scope(SCOPE, call('HGET', JOBS, ID)), NOW end
  return reply
end

if REPLAY then return add_record(REPLAY) end
check_keys()
local job, reply = decode(in_scope(SCOPE, call('HGET', JOBS, ID))), { OK, '' }
if not job then
  reply[1] = GONE
elseif not outlets[job.outlet] then
  reply = { MOVED, job.outlet }
elseif job.state ~= DEAD then
  reply = { REFUSED, job.state }
else
  job.attempts, job.reason = 0, nil
  remember(job, REQUEUED, NOW, 0, 0, ARGV[A + 4])
  local is_moment = ARGV[A + 2] == 'at'
  wait_until(ID, job, due_at(is_moment, tonumber(ARGV[A + 3])), is_moment)
end
write_counts()
return add_record(save_reply(reply))
