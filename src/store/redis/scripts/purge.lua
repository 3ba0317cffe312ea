#!lua flags=allow-oom
-- Deletes a topic's jobs from a slice of one shard.
--
-- ARGV[A..] topic, cursor, number of jobs to check
-- Reply     { next cursor, number of deleted jobs, outlets whose keys are needed: then nothing was deleted, and the caller
--           repeats the call with them }
if REPLAY then return REPLAY end
check_keys()
local topic, deleted, jobs, unknown = ARGV[A], 0, {}, {}
local next_cursor, found = scan(JOBS, ARGV[A + 1], ARGV[A + 2])
for i = 1, #found, 2 do
  local job = decode(found[i + 1])
  if job and job.topic == topic then
    jobs[#jobs + 1] = { id = found[i], job = job }
    if not outlets[job.outlet] and not unknown[job.outlet] then
      unknown[job.outlet], unknown[#unknown + 1] = true, job.outlet
    end
  end
end
if unknown[1] then return { ARGV[A + 1], 0, unknown } end
for _, entry in ipairs(jobs) do
  -- A slice may contain a job twice while its table grows or shrinks.
  if call('HEXISTS', JOBS, entry.id) == 1 then
    remove_job(entry.id, entry.job)
    deleted = deleted + 1
  end
end
write_counts()
return save_reply({ next_cursor, deleted, {} })
