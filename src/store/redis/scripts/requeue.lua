#!lua flags=allow-oom
-- Makes dead jobs wait again: attempts start at 0, the reason is cleared.
--
-- ARGV[A..] the caller's scope, delay in ms, '1' to be shown the jobs, the ids
-- Reply     per job a code, and its record when it was requeued and is to be shown, its topic when the
--           caller did not know of it, its state when it is not dead, '' otherwise
local SCOPE, FIRST = ARGV[A], A + 3
local function shown(reply)
  for i = 1, #reply, 2 do
    if ARGV[A + 2] == '1' and reply[i] == OK then
      reply[i + 1] = within(SCOPE, call('HGET', POOL, ARGV[FIRST + (i - 1) / 2]))
    end
  end
  return reply
end

if REPLAY then return shown(REPLAY) end
check_keys()
local delay, reply = tonumber(ARGV[A + 1]), {}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local job = open(within(SCOPE, call('HGET', POOL, id)))
  local code, what = OK, ''
  if not job then
    code = GONE
  elseif not topics[job.topic] then
    code, what = MOVED, job.topic
  elseif job.state ~= DEAD then
    code, what = REFUSED, job.state
  else
    job.attempts, job.reason = 0, nil
    wait_again(id, job, delay)
  end
  reply[#reply + 1], reply[#reply + 2] = code, what
end
settle()
return shown(remember(reply))
