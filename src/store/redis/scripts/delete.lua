#!lua flags=allow-oom
-- Deletes jobs.
--
-- ARGV[A..] the caller's scope, 1 to refuse reserved jobs, the maximum number of remembered ids of this shard, the ids
-- Reply     { 1 when a list should be compacted, ids forgotten early, per job a code, an outlet ('' when nothing changed),
--           and the state of the job before, or -1 }
if REPLAY then return REPLAY end
check_keys()
check_remembered()
local spares_reserved, most, reply, touched = ARGV[A + 1] == '1', tonumber(ARGV[A + 2]), { 0, 0 }, {}
for i = A + 3, #ARGV do
  local id = ARGV[i]
  local head = head_in_scope(JOBS, ARGV[A], id)
  local job = decode(head)
  local code, outlet = OK, ''
  if head and not job then
    set_aside(id, call('HGET', JOBS, id))
    heads[id] = nil
  end
  local state = job and job.state or -1
  if not job then
    code = GONE
  elseif spares_reserved and state == RESERVED then
    code = REFUSED
  elseif has_outlet_key(state) and not outlets[job.outlet] then
    code, outlet = MOVED, job.outlet
  else
    outlet = job.outlet
    if state == READY then touched[outlet] = true end
    remember_id(id, job, DELETED, most)
    remove_job(id, job)
    heads[id] = nil
  end
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = code, outlet, state
end
write_counts()
for outlet in pairs(touched) do
  if has_many_stale(outlet) then reply[1] = 1 end
end
reply[2] = forgotten_early
return save_reply(reply)
