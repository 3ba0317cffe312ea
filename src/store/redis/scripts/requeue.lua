#!lua flags=allow-oom
-- Makes dead jobs wait again: attempts start at 0, the reason is cleared.
--
-- ARGV[A..] the caller's scope, delay in ms, '1' for a reply with records, the ids
-- Reply     per job a code, and its record if it was requeued and records are wanted, its topic if the keys of the
--           topic are needed, its state if it is not dead, otherwise ''
local SCOPE, FIRST = ARGV[A], A + 3
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
  elseif not topics[job.topic] then
    code, value = MOVED, job.topic
  elseif job.state ~= DEAD then
    code, value = REFUSED, job.state
  else
    job.attempts, job.reason = 0, nil
    make_waiting(id, job, delay)
  end
  reply[#reply + 1], reply[#reply + 2] = code, value
end
write_counts()
return add_records(save_reply(reply))
