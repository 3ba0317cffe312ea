#!lua
-- Stores jobs as they are in another store. When memory is full the whole call is refused, before anything is written.
--
-- ARGV[A..] per job its id and its record. Its generation is a fresh random number, so that no stale entry of its id matches.
-- Reply     { set aside, per job 1 when it was stored, 2 when it is there already, 3 when another one has its id }
if REPLAY then return REPLAY end
check_keys()
check_remembered()
local DONE, EXISTS, DIFFERS = 1, 2, 3
local indexes = indexes_behind(0)

local function put(id, raw)
  local job, stored = decode(raw), call('HGET', JOBS, id)
  local old = decode(stored)
  if old then
    local same = old.print == job.print and old.created == job.created and old.topic == job.topic
    return same and EXISTS or DIFFERS
  end
  if stored then set_aside(id, stored) end
  for _, index in ipairs(indexes) do
    local moment = moment_in(index, job)
    if moment then call('ZADD', index.key, moment, id) end
  end
  if job.state == READY then call('RPUSH', outlets[job.outlet].ready, pack('>I4I6', job.gen, NOW) .. id) end
  if job.state == DEAD then call('ZADD', outlets[job.outlet].dead, job.died, id) end
  count(job.outlet, job.state, 1, job.due)
  call('HSET', JOBS, id, raw)
  -- The id may have been copied before its job was replaced.
  if call('HEXISTS', REMEMBERED, id) == 1 then forget(id) end
  return DONE
end

local reply = { 0 }
for i = A, #ARGV, 2 do reply[#reply + 1] = put(ARGV[i], ARGV[i + 1]) end
write_counts()
reply[1] = set_aside_count
return save_reply(reply)
