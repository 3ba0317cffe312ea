#!lua flags=allow-oom
-- Finishes jobs: they are removed.
--
-- ARGV[A..] '' when all callers may use every topic; then per job its id, its receipt or '', and otherwise its caller's
--           scope
-- Reply     per job a code and an outlet ('' unless done, or LATE_FINISH: `finish_late.lua` decides about this job)
local NOT_RESERVED, RECEIPT_REQUIRED = 6, 7
if REPLAY then return REPLAY end

check_shard(LEASES)
-- The jobs to remove, as a list and as a set, and the outlets of those whose receipt is of a reservation that timed out.
local finished, is_finished, late = {}, {}, {}
local reply, n = {}, 0
local step = ARGV[A] == '' and 2 or 3
for i = A + 1, #ARGV, step do
  local id, receipt = ARGV[i], ARGV[i + 1]
  local head = not is_finished[id] and head_in_scope(JOBS, step == 3 and ARGV[i + 2] or '', id)
  local code = OK
  local ends, outlet, length, tag = parse_head(head, RESERVED)
  -- A record that is not of the common form is decoded in full.
  if tag ~= LEASE or length < 31 or receipt ~= sub(head, ends + 4, ends + 19) then
    local job = decode(head)
    if not job then
      code = GONE
    elseif late[id] or receipt ~= '' and takes_late(job, receipt) then
      code, late[id] = LATE_FINISH, job.outlet
    elseif receipt == '' and job.strict then
      code = RECEIPT_REQUIRED
    elseif receipt == '' and job.state ~= RESERVED then
      code = NOT_RESERVED
    elseif receipt ~= '' and receipt ~= job.receipt then
      code = LOST
    else
      outlet = job.outlet
    end
  end
  if code == LATE_FINISH then
    outlet = late[id]
  elseif code == OK then
    finished[#finished + 1], is_finished[id] = id, true
    count(outlet, RESERVED, -1)
  else
    outlet = ''
  end
  reply[n + 1], reply[n + 2] = code, outlet
  n = n + 2
end
if not finished[1] then return reply end
in_parts(finished, function(...) call('ZREM', LEASES, ...) end)
in_parts(finished, function(...) call('HDEL', JOBS, ...) end)
write_counts()
return save_reply(reply)
