#!lua flags=allow-oom
-- Deletes jobs in any state.
--
-- ARGV[A..] the caller's scope, the maximum number of remembered ids of this shard, the ids
-- Reply     { 1 when a list should be compacted, ids forgotten early, per job a code and an outlet ('' when gone) }
if REPLAY then return REPLAY end
check_keys()
check_remembered()
local most, reply, touched = tonumber(ARGV[A + 1]), { 0, 0 }, {}
for i = A + 2, #ARGV do
  local id = ARGV[i]
  local head = head_in_scope(JOBS, ARGV[A], id)
  local job = decode(head)
  local code, outlet = OK, ''
  if head and not job then
    set_aside(id, call('HGET', JOBS, id))
    heads[id] = nil
  end
  if not job then
    code = GONE
  elseif has_outlet_key(job.state) and not outlets[job.outlet] then
    code, outlet = MOVED, job.outlet
  else
    outlet = job.outlet
    if job.state == READY then touched[outlet] = true end
    remember_id(id, job, DELETED, most)
    remove_job(id, job)
    heads[id] = nil
  end
  reply[#reply + 1], reply[#reply + 2] = code, outlet
end
write_counts()
for outlet in pairs(touched) do
  if has_many_stale(outlet) then reply[1] = 1 end
end
reply[2] = forgotten_early
return save_reply(reply)
