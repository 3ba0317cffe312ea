#!lua flags=allow-oom
-- Cancels reservations that no client has seen: the attempt is not counted, and the job returns to
-- the head of its list. A second run finds other receipts and does nothing.
--
-- ARGV[A..] per grant its id and receipt
-- Reply     { per cancelled reservation OK and its outlet, per outlet whose keys are needed MOVED and the outlet }
check_keys()
local reply = {}
for i = A, #ARGV, 2 do
  local id = ARGV[i]
  local job = decode(call('HGET', JOBS, id))
  if job and job.state == RESERVED and job.receipt == ARGV[i + 1] then
    local code = MOVED
    if outlets[job.outlet] then
      job.attempts = math.max(job.attempts - 1, 0)
      make_ready(id, job, job.due, true)
      code = OK
    end
    reply[#reply + 1], reply[#reply + 2] = code, job.outlet
  end
end
write_counts()
return reply
