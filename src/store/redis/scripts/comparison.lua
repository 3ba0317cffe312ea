-- Prelude of the two scripts that compare the indexes and counts of a shard with its records, which are the truth: one
-- reports what differs, the other corrects it.
local indexes = indexes_behind(0)

-- How many of the records that this run has seen belong to each count.
local tally = {}
local function add_to_tally(field) tally[field] = (tally[field] or 0) + 1 end

local function tally_job(job)
  add_to_tally(count_field(job.outlet, job.state))
  if job.state == DELAYED then
    local minute, hour = timeline_fields(job.outlet, job.due)
    add_to_tally(minute)
    add_to_tally(hour)
  end
end

-- Calls `differs` for each index where the score of a job is not its moment, with the name and the key of the index, the
-- moment, which is nil when the job should not be there, and the score, which is nil when it is not there.
local function compare_scores(id, job, differs)
  local function compare(name, key, moment)
    local score = tonumber(call('ZSCORE', key, id) or nil)
    if score ~= moment then differs(name, key, moment, score) end
  end
  for _, index in ipairs(indexes) do compare(index.name, index.key, moment_in(index, job)) end
  local own = outlets[job.outlet]
  if own then compare('the dead letters of its topic', own.dead, job.died) end
end
