-- Prelude of the scripts that list jobs of one shard: which jobs match, and when a run has done enough. The caller decides
-- in the end whether a job matches.
--
-- KEYS  1 jobs, then those of the script
-- ARGV  1 state  2 topic or ''  3 what ids begin with  4 what reasons begin with  5 most jobs to find  6 most jobs to
--       examine  7 'asc' or 'desc'  8 who has the reserved jobs or '', then from ARGV[9] the script's own arguments
-- Reply per job that is found its id, its moment or 0, its record without the body, the length of its body in bytes
local JOBS = KEYS[1]
local STATE, TOPIC, ID_PREFIX, REASON_PREFIX = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local WANTED, MOST, ASCENDING = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == 'asc'
local RESERVED_BY = ARGV[8]
-- What a run may cost: about 200 records, or 1,000 entries whose records are not read.
local COST_LIMIT, ENTRY_COST, READ_COST, BYTES_LIMIT = 1000, 1, 4, 262144
local PAGE = 100
local examined, found, cost, bytes, reply = 0, 0, 0, 0, {}

local function begins(text, prefix) return sub(text, 1, #prefix) == prefix end

-- Whether the run has done enough.
local function is_over()
  return found >= WANTED or examined >= MOST or cost >= COST_LIMIT or bytes >= BYTES_LIMIT
end

-- Examines the job of an index's entry, and adds it to `reply` if it matches. A ready job has the generation `gen`, in bytes.
-- An entry that leads to no such job, or to a broken record, is skipped: promotions and the sweep set it aside.
local function examine(id, moment, gen)
  examined, cost = examined + 1, cost + ENTRY_COST
  if id == '' or not begins(id, ID_PREFIX) then return end
  local raw = call('HGET', JOBS, id)
  cost, bytes = cost + READ_COST, bytes + (raw and #raw or 0)
  local ends, outlet, length = parse_head(raw, STATE)
  if not ends or (TOPIC ~= '' and topic_of(outlet) ~= TOPIC) or (gen and sub(raw, 3, 6) ~= gen) then return end
  local body_at = ends + length + 1
  if REASON_PREFIX ~= '' then
    local job = decode(sub(raw, 1, body_at))
    if not job or not begins(job.reason or '', REASON_PREFIX) then return end
  end
  -- The name of the holder is in the lease, or is the host in the URL of the callback.
  if RESERVED_BY ~= '' and not string.find(sub(raw, 1, body_at - 1), RESERVED_BY, 1, true) then return end
  found = found + 1
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, moment, sub(raw, 1, body_at - 1), #raw - body_at + 1
end
