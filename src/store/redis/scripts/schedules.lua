-- Prelude of the scripts that change schedules, each together with the job of its run. They have `transitions.lua`,
-- `adding.lua` and `agenda.lua`, too.
--
-- KEYS      behind those of the outlets: the schedules, a hash of names to contents, and the agenda
-- ARGV[A..] per change nine:
--             1 the schedule's name, 2 the content that is expected, 3 the new one; '' for none
--             4 the id of the run's job, 5 its record, 6 when it is due; '' for no run
--             7 what the previous run's job means: '' nothing, 's' the run is left out while that job is not dead, 'g' it is
--               deleted if it waits, 8 its id
--             9 the content for a run that is left out
-- Reply     { set aside, per change 'D' when it was made, 'G' when the previous run's job was deleted besides, 'S' when the run was
--           left out; nothing is changed for 'F' when the content differs, 'Y' when the job is not due yet, 'X' and 'P' as in
--           `add.lua`, and 'M' with an outlet whose keys are needed }
local SCHEDULES, AGENDA = KEYS[#KEYS - 1], KEYS[#KEYS]

local function put_schedule(name, content)
  if content == '' then
    call('HDEL', SCHEDULES, name)
    call('ZREM', AGENDA, name)
    return
  end
  local moment = next_moment(content)
  call('HSET', SCHEDULES, name, content)
  if moment then call('ZADD', AGENDA, moment, name) else call('ZREM', AGENDA, name) end
end

local function change_schedule(at)
  local name, expected, content, id, record, due, kind, previous, instead = _G.unpack(ARGV, at, at + 8)
  if (call('HGET', SCHEDULES, name) or '') ~= expected then return 'F' end
  if id == '' then
    put_schedule(name, content)
    return 'D'
  end
  if tonumber(due) > NOW then return 'Y' end
  local old = kind ~= '' and previous ~= id and decode(call('HGET', JOBS, previous)) or nil
  if kind == 's' and old and old.state ~= DEAD then
    put_schedule(name, instead)
    return 'S'
  end
  local gives_way = kind == 'g' and old and old.state <= READY
  if gives_way and old.state == READY and not outlets[old.outlet] then return 'M' .. old.outlet end
  local outcome = sub(add(id, record), 1, 1)
  if outcome == 'X' or outcome == 'P' then return outcome end
  index_added()
  if gives_way then remove_job(previous, old) end
  put_schedule(name, content)
  return gives_way and 'G' or 'D'
end

local function change_schedules()
  if REPLAY then return REPLAY end
  check_keys()
  call('HLEN', SCHEDULES)
  call('ZCARD', AGENDA)
  local reply = { 0 }
  for i = A, #ARGV, 9 do reply[#reply + 1] = change_schedule(i) end
  write_counts()
  reply[1] = set_aside_count
  return save_reply(reply)
end
