#!lua flags=allow-oom
-- Cancels reservations that no client has seen: the attempt is not counted, and the job returns to
-- the head of its list, or is delayed. A second run finds other receipts and does nothing.
--
-- ARGV[A]    delay in ms; with 0 the jobs are ready at once, and their due time stays
-- ARGV[A+1..] per grant its id and receipt
-- Reply     { per grant a code and an outlet ('' when the receipt is not valid); REPLACED when it was of an older version, so that
--           the job waits for its due time }
check_keys()
local delay, reply = tonumber(ARGV[A]), {}
for i = A + 1, #ARGV, 2 do
  local id = ARGV[i]
  local job = decode(call('HGET', JOBS, id))
  local code, outlet = LOST, ''
  if job and job.state == RESERVED and job.receipt == ARGV[i + 1] then
    code, outlet = MOVED, job.outlet
    if waits_for_older(job) then
      if outlets[job.outlet] then
        end_older(id, job)
        code = REPLACED
      end
    elseif delay > 0 or outlets[job.outlet] then
      job.attempts = math.max(job.attempts - 1, 0)
      if delay > 0 then
        wait_until(id, job, NOW_UP + delay, false)
      else
        make_ready(id, job, job.due, true)
      end
      code = OK
    end
  end
  reply[#reply + 1], reply[#reply + 2] = code, outlet
end
write_counts()
return reply
