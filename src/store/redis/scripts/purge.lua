#!lua flags=allow-oom
-- Deletes a topic's jobs from a slice of one shard.
--
-- ARGV[A..] topic, cursor, number of jobs to check
-- Reply     { next cursor, number of deleted jobs }
if REPLAY then return REPLAY end
check_keys()
local topic, deleted = ARGV[A], 0
local found = call('HSCAN', JOBS, ARGV[A + 1], 'COUNT', ARGV[A + 2])
for i = 1, #found[2], 2 do
  local id, job = found[2][i], decode(found[2][i + 1])
  -- A slice may contain a job twice while its table grows or shrinks.
  if job and job.topic == topic and call('HEXISTS', JOBS, id) == 1 then
    remove_job(id, job)
    deleted = deleted + 1
  end
end
write_counts()
return save_reply({ found[1], deleted })
