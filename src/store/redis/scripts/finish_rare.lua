#!lua flags=allow-oom
-- Finishes jobs whose finish is rare: by the receipt of a reservation that has timed out; of a job whose id is remembered; and of
-- a job whose older version is reserved: only the reservation ends.
--
-- ARGV[A..] the maximum number of remembered ids of this shard; per job its id, its receipt or '', and its caller's scope
-- Reply     { 1 when a list should be compacted, ids forgotten early, per job a code and an outlet ('' unless done, REPLACED,
--           or MOVED: its keys are needed) }
local NOT_RESERVED, RECEIPT_REQUIRED, FINISHED_LATE = 6, 7, 13
if REPLAY then return REPLAY end
check_keys()
check_remembered()
local most, reply, left_ready = tonumber(ARGV[A]), { 0, 0 }, {}

-- Finishes a job, which may have changed since the caller saw it. Returns a code.
local function finish(id, job, receipt)
  if not job then return GONE end
  if receipt == '' and job.strict then return RECEIPT_REQUIRED end
  if receipt == '' and job.state ~= RESERVED then return NOT_RESERVED end
  if receipt ~= '' and receipt ~= job.receipt and not takes_late(job, receipt) then return LOST end
  if (has_outlet_key(job.state) or waits_for_older(job)) and not outlets[job.outlet] then return MOVED end
  if waits_for_older(job) then
    -- With its whole body, which a head lacks.
    end_older(id, decode(call('HGET', JOBS, id)))
    return REPLACED
  end
  local is_late = job.state ~= RESERVED
  if job.state == READY then left_ready[job.outlet] = true end
  remember_id(id, job, FINISHED, most)
  remove_job(id, job)
  return is_late and FINISHED_LATE or OK
end

for i = A + 1, #ARGV, 3 do
  local id = ARGV[i]
  local job = decode(head_in_scope(JOBS, ARGV[i + 2], id))
  local code = finish(id, job, ARGV[i + 1])
  local is_changed = code == OK or code == FINISHED_LATE or code == REPLACED
  if is_changed then heads[id] = nil end
  reply[#reply + 1], reply[#reply + 2] = code, (is_changed or code == MOVED) and job.outlet or ''
end
write_counts()
for outlet in pairs(left_ready) do
  if has_many_stale(outlet) then reply[1] = 1 end
end
reply[2] = forgotten_early
return save_reply(reply)
