#!lua flags=allow-oom
-- Finishes jobs: they are removed.
--
-- ARGV[A..] '' when all callers may use every topic; then per job its id, its receipt or '', and otherwise its caller's
--           scope
-- Reply     per job a code and an outlet ('' unless done)
local NOT_RESERVED, RECEIPT_REQUIRED = 6, 7
if REPLAY then return REPLAY end

check_shard(LEASES)
local reply, n, changed = {}, 0, false
local step = ARGV[A] == '' and 2 or 3
for i = A + 1, #ARGV, step do
  local id, receipt = ARGV[i], ARGV[i + 1]
  local head = head_in_scope(JOBS, step == 3 and ARGV[i + 2] or '', id)
  local code = OK
  local ends, outlet, length, tag = parse_head(head, RESERVED)
  -- A record that is not of the common form is decoded in full.
  if tag ~= LEASE or length < 31 or receipt ~= sub(head, ends + 4, ends + 19) then
    local job = decode(head)
    if not job then
      code = GONE
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
  if code == OK then
    changed, heads[id] = true, nil
    call('ZREM', LEASES, id)
    call('HDEL', JOBS, id)
    count(outlet, RESERVED, -1)
  else
    outlet = ''
  end
  reply[n + 1], reply[n + 2] = code, outlet
  n = n + 2
end
write_counts()
return changed and save_reply(reply) or reply
