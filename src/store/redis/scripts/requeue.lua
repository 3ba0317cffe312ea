#!lua flags=allow-oom
-- Makes dead jobs wait again: attempts start at 0, the reason is cleared.
--
-- ARGV[A..] the caller's scope, delay in ms, '1' for a reply with records, who requeues or '', the ids
-- Reply     per job a code, and its outlet if it was requeued or the keys of the outlet are needed, its record in place
--           of the outlet if it was requeued and records are wanted, its state if it is not dead, otherwise ''
local SCOPE, FIRST = ARGV[A], A + 4
local function add_records(reply)
  for i = 1, #reply, 2 do
    if ARGV[A + 2] == '1' and reply[i] == OK then
      reply[i + 1] = in_scope(SCOPE, call('HGET', JOBS, ARGV[FIRST + (i - 1) / 2]))
    end
  end
  return reply
end

if REPLAY then return add_records(REPLAY) end
check_keys()
local delay, reply = tonumber(ARGV[A + 1]), {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local job = decode(in_scope(SCOPE, call('HGET', JOBS, id)))
  local code, value = OK, ''
  if not job then
    code = GONE
  elseif not outlets[job.outlet] then
    code, value = MOVED, job.outlet
  elseif job.state ~= DEAD then
    code, value = REFUSED, job.state
  else
    job.attempts, job.reason = 0, nil
    remember(job, REQUEUED, NOW, 0, 0, ARGV[A + 3])
    make_waiting(id, job, delay)
    value = job.outlet
  end
  reply[#reply + 1], reply[#reply + 2] = code, value
end
write_counts()
return add_records(save_reply(reply))
