#!lua flags=allow-oom
-- Finishes jobs: they are removed.
--
-- ARGV[A..] '' when all callers may use every topic; then per job its id, its receipt or '', and otherwise its caller's
--           scope
-- Reply     per job a code and an outlet ('' unless done, or RARE: `finish_rare.lua` decides about this job)
local NOT_RESERVED, RECEIPT_REQUIRED, RARE, NEVER, IS_REMEMBERED = 6, 7, 12, '\0\0\0\0', 4
if REPLAY then return REPLAY end

check_shard(LEASES)
-- The jobs to remove, as a list and as a set, and the outlets of those that the other script decides about.
local finished, is_finished, rare = {}, {}, {}
local reply, n = {}, 0
local step = ARGV[A] == '' and 2 or 3
for i = A + 1, #ARGV, step do
  local id, receipt = ARGV[i], ARGV[i + 1]
  local head = not is_finished[id] and head_in_scope(JOBS, step == 3 and ARGV[i + 2] or '', id)
  local code = OK
  local ends, outlet, length, tag = parse_head(head, RESERVED)
  -- A record that is not of the common form is decoded in full. So is one whose attempts are 0, whose id is remembered, or which
  -- needs a receipt that the caller does not have.
  if tag ~= LEASE or length < 31 or byte(head, 2) >= IS_REMEMBERED
    or (receipt == '' and byte(head, 2) % 2 == 1) or (receipt ~= '' and receipt ~= sub(head, ends + 4, ends + 19))
    or (byte(head, 16) == 0 and sub(head, 13, 16) == NEVER) then
    local job = decode(head)
    if not job then
      code = GONE
    elseif rare[id] or receipt ~= '' and takes_late(job, receipt) then
      code, rare[id] = RARE, job.outlet
    elseif receipt == '' and job.strict then
      code = RECEIPT_REQUIRED
    elseif receipt == '' and job.state ~= RESERVED then
      code = NOT_RESERVED
    elseif receipt ~= '' and receipt ~= job.receipt then
      code = LOST
    elseif waits_for_older(job) or job.dedup then
      code, rare[id] = RARE, job.outlet
    else
      outlet = job.outlet
    end
  end
  if code == RARE then
    outlet = rare[id]
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
