-- Prelude of the scripts that go through all indexes of a shard.

-- The indexes of the shard whose keys follow the first `at` keys: the name of each, its key, the state of its jobs, which is
-- nil for waiting jobs that have the moment, and the field of a decoded record that has it.
local function indexes_behind(at)
  return {
    -- written: the rows of the indexes
  }
end

-- The moment of a job in an index; nil when it is not in it.
local function moment_in(index, job)
  if job.state == index.state or (not index.state and job.state <= READY) then return job[index.moment] end
end
