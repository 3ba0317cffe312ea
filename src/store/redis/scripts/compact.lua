#!lua flags=allow-oom
-- Removes the stale ones of the first entries of an outlet's ready list and moves the others to its end, so
-- that a full turn leaves them in their order.
--
-- ARGV[A..] outlet, how many entries
-- Reply     how many entries there were
local list = outlets[ARGV[A]].ready
call('HLEN', JOBS)
local length = call('LLEN', list)
for _, entry in ipairs(call('LPOP', list, ARGV[A + 1]) or {}) do
  local gen, _, id = read_entry(entry)
  local job = decode(call('HGET', JOBS, id))
  if job and job.state == READY and job.gen == gen then call('RPUSH', list, entry) end
end
return length
