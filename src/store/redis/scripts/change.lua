#!lua flags=allow-oom
-- Changes jobs that a list showed, each only if it is still as it was seen.
--
-- ARGV[A..] who changes them or '', then per job its id, topic, state and moment as seen, the change 'delete', 'after', 'at',
--           'requeue', 'requeue_at', 'revoke' or 'revoke_at', its delay or moment in ms, and the change of the expiry
--           (`change_expiry`), or for a revoke the reason or '', with a leading '+' when given
-- Reply     { 1 when a list should be compacted, per job a code, an outlet ('' when skipped), and the ms until it is due,
--           or -1 }
if REPLAY then return REPLAY end
check_keys()
local reply, left_ready = { 0 }, {}

local function moment_of(job)
  if job.state == RESERVED then return job.till end
  return job.state == DEAD and job.died or job.due
end

-- Takes a reserved job back. Returns as `change` does.
local function revoke(id, job, due, is_moment, reason)
  local is_dead = attempts_used_up(job)
  if not outlets[job.outlet] and (is_dead or waits_for_older(job) or due <= NOW) then return MOVED, -1 end
  if waits_for_older(job) then
    end_older(id, job)
    return OK, math.max(job.due - NOW, 0)
  end
  reason = reason ~= '' and sub(reason, 2) or nil
  remember_attempt(job, REVOKED, reason)
  if is_dead then
    make_dead(id, job, reason or 'attempts_used')
    return OK, -1
  end
  job.reason = reason
  wait_until(id, job, due, is_moment)
  return OK, math.max(due - NOW, 0)
end

-- Changes a job. Returns a code and the ms until it is due, or -1.
local function change(id, job, kind, ms, expiry)
  if kind == 'revoke' or kind == 'revoke_at' then
    return revoke(id, job, due_at(kind == 'revoke_at', ms), kind == 'revoke_at', expiry)
  end
  local was, due = job.state, nil
  local is_moment, requeues = kind == 'at' or kind == 'requeue_at', kind == 'requeue' or kind == 'requeue_at'
  if kind ~= 'delete' then due = due_at(is_moment, ms) end
  if not outlets[job.outlet] and (has_outlet_key(was) or (due and due <= NOW)) then return MOVED, -1 end
  if requeues and expiry == '' and job.expires and job.expires <= NOW then return GONE, -1 end
  change_expiry(job, expiry)
  if due and count_expiry(job, due, is_moment) then return GONE, -1 end
  if was == READY then left_ready[job.outlet] = true end
  if not due then
    remove_job(id, job)
    return OK, -1
  end
  set_attribute(job, TIMED_OUT, nil)
  if requeues then
    set_attribute(job, NOTE, nil)
    job.attempts, job.reason = 0, nil
    remember(job, REQUEUED, NOW, 0, 0, ARGV[A])
  else
    remember_reschedule(job, due, ARGV[A])
  end
  wait_until(id, job, due, is_moment)
  return OK, math.max(due - NOW, 0)
end

-- The outlets of jobs that the next call changes. What else this call does with such a job comes after that.
local postponed = {}
for i = A + 1, #ARGV, 7 do
  local id, job = ARGV[i], decode(call('HGET', JOBS, ARGV[i]))
  local code, outlet, wait = GONE, '', -1
  if postponed[id] then
    code, outlet = MOVED, postponed[id]
  elseif job and job.topic == ARGV[i + 1] and job.state == tonumber(ARGV[i + 2])
    and moment_of(job) == tonumber(ARGV[i + 3]) then
    outlet = job.outlet
    code, wait = change(id, job, ARGV[i + 4], tonumber(ARGV[i + 5]), ARGV[i + 6])
    if code == MOVED then postponed[id] = outlet end
    if code == GONE then outlet = '' end
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = code, outlet, wait
end
write_counts()
for outlet in pairs(left_ready) do
  if has_many_stale(outlet) then reply[1] = 1 end
end
return save_reply(reply)
