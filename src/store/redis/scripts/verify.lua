#!lua flags=no-writes
-- Verifies a shard, or as much of it as fits in one run: compares every record with its indexes, every
-- index entry with its record, and the counts with both. A shard that fits in one run is verified as
-- of one moment. In a larger one, each page and each ready list is verified as of one moment. Its counts per topic
-- and its timeline are then not compared with the records; the sums of its counts are compared with the sizes of the
-- indexes.
--
-- KEYS  those of `shard_keys.lua`
-- ARGV  step and cursor to continue from, the outlets
-- Reply { next step or 0, next cursor, 1 when this run begins the scan of the records, so that the caller drops what earlier
--         runs found; jobs, stale, set aside, faults, ids of the jobs, outlets whose keys are needed: the caller repeats the
--         step with them }
local BUDGET, PAGE, FAULT_LIMIT, BROKEN_LIMIT, TIMELINE_LIMIT = 10000, 100, 20, 10000, 40000
local names = {}
for i = 3, #ARGV do
  names[i - 2] = ARGV[i]
  local ready = SHARD_KEYS + 2 * (i - 2) - 1
  outlets[ARGV[i]] = { ready = KEYS[ready], dead = KEYS[ready + 1] }
end

local spent, jobs, stale, aside, begins = 0, 0, 0, 0, 0
local faults, ids, unknown = {}, {}, {}

local function fault(...)
  if #faults < FAULT_LIMIT then faults[#faults + 1] = table.concat({ ... }) end
end

local function read(id)
  local raw = call('HGET', JOBS, id)
  spent = spent + 1 + (raw and #raw or 0) / 1024
  return decode(raw)
end

local function report_score(id, index, moment, score)
  if not score then
    fault('job ', id, ': it is missing in ', index)
  elseif not moment then
    fault('job ', id, ': it should not be in ', index)
  else
    fault('job ', id, ': it has a wrong score in ', index)
  end
end

local function check_record(id, raw)
  local job = decode(raw)
  spent = spent + 1 + #raw / 1024
  if not job then
    -- When the hash of broken records is full, they stay where they are.
    if call('HLEN', BROKEN) < BROKEN_LIMIT then fault('job ', id, ': its record cannot be read') end
    aside = aside + 1
    return
  end
  jobs, ids[#ids + 1] = jobs + 1, id
  tally_job(job)
  compare_scores(id, job, function(index, _, moment, score) report_score(id, index, moment, score) end)
  if not outlets[job.outlet] then unknown[job.outlet] = true end
end

-- Checks one page of the records; returns the next cursor.
local function check_records(cursor)
  local next_cursor, found, scan_begins = scan(JOBS, cursor, PAGE)
  if scan_begins then begins = 1 end
  for i = 1, #found, 2 do check_record(found[i], found[i + 1]) end
  return next_cursor
end

-- Checks one page of a sorted set, which has the moments of jobs by `moment_of`; returns the next cursor.
local function check_entries(name, key, cursor, topic, moment_of)
  local found = call('ZSCAN', key, cursor, 'COUNT', PAGE)
  for i = 1, #found[2], 2 do
    local id, score, job = found[2][i], tonumber(found[2][i + 1]), read(found[2][i])
    if not job then
      fault('entry ', id, ' of ', name, ': it leads to no job')
    elseif moment_of(job) ~= score or (topic and job.topic ~= topic) then
      fault('entry ', id, ' of ', name, ': the job is not what it says')
    end
  end
  return found[1]
end

local function check_ready(outlet)
  local list, valid, seen = outlets[outlet].ready, 0, {}
  for from = 0, call('LLEN', list) - 1, PAGE do
    for _, entry in ipairs(call('LRANGE', list, from, from + PAGE - 1)) do
      local gen, _, id = read_entry(entry)
      local job = read(id)
      if not job or job.state ~= READY or job.gen ~= gen or job.outlet ~= outlet then
        stale = stale + 1
      elseif seen[id] then
        fault('job ', id, ': it is twice in the ready list of its topic')
      else
        seen[id], valid = true, valid + 1
      end
    end
  end
  local counted = tonumber(call('HGET', COUNTS, 'r' .. outlet) or 0)
  if counted ~= valid then
    fault('topic ', outlet, ': ', counted, ' jobs are counted as ready, ', valid, ' are in its list')
  end
  return '0'
end

local function check_replay_slots()
  local slots = call('HGETALL', REPLAY_SLOTS)
  for i = 1, #slots, 2 do
    if #slots[i] ~= 12 or #slots[i + 1] <= 12 or not pcall(cmsgpack.unpack, sub(slots[i + 1], 13)) then
      fault('a replay slot cannot be read')
    end
  end
end

local function check_sums()
  check_replay_slots()
  aside = aside + call('HLEN', BROKEN)
  local sums, counts = { d = 0, r = 0, v = 0, x = 0 }, call('HGETALL', COUNTS)
  for i = 1, #counts, 2 do
    local letter, topic, number = sub(counts[i], 1, 1), sub(counts[i], 2), tonumber(counts[i + 1])
    if counts[i] ~= '#' and counts[i] ~= '!' then
      if not sums[letter] or not number or number < 1 or number % 1 ~= 0 then
        fault('count ', counts[i], ': ', counts[i + 1], ' is none')
      else
        sums[letter] = sums[letter] + number
        if letter == 'x' and outlets[topic] and call('ZCARD', outlets[topic].dead) ~= number then
          fault('topic ', topic, ': its dead letters are not as many as counted')
        end
      end
    end
  end
  local function check_size(name, size, expected)
    if size ~= expected then fault(name, ' has ', size, ' entries, ', expected, ' are counted') end
  end
  for _, index in ipairs(indexes) do
    if index.state then check_size(index.name, call('ZCARD', index.key), sums[LETTERS[index.state]]) end
  end
  if aside == 0 then check_size('jobs', call('HLEN', JOBS), sums.d + sums.r + sums.v + sums.x) end
  return '0'
end

-- A field of the timeline contains a number in four bytes.
local function printable(field)
  local letter = sub(field, 1, 1)
  if (letter ~= 'm' and letter ~= 'h') or #field < 5 then return 'count ' .. field end
  local unit = letter == 'm' and 'minute ' or 'hour '
  return 'timeline of topic ' .. sub(field, 6) .. ', ' .. unit .. string.format('%.0f', (unpack('>I4', field, 2)))
end

local function check_counts()
  for _, hash in ipairs({ COUNTS, TIMELINE }) do
    local counts = call('HGETALL', hash)
    for i = 1, #counts, 2 do
      local there = tally[counts[i]] or 0
      if counts[i] ~= '#' and counts[i] ~= '!' and tonumber(counts[i + 1]) ~= there then
        fault(printable(counts[i]), ': it says ', counts[i + 1], ', there are ', there)
      end
      tally[counts[i]] = nil
    end
  end
  for field, there in pairs(tally) do fault(printable(field), ': it is missing, there are ', there) end
end

-- The steps in order: jobs, each index, each topic's dead letters, each outlet's ready list, sums.
local function run(step, cursor)
  if step == 1 then return check_records(cursor) end
  local index = indexes[step - 1]
  if index then
    return check_entries(index.name, index.key, cursor, nil, function(job) return moment_in(index, job) end)
  end
  step = step - 1 - #indexes
  local outlet = names[step]
  if outlet then
    -- The dead letters of a topic are checked with its plain outlet.
    if topic_of(outlet) ~= outlet then return '0' end
    local function moment_of(job) return job.died end
    return check_entries('the dead letters', outlets[outlet].dead, cursor, outlet, moment_of)
  end
  outlet = names[step - #names]
  return outlet and check_ready(outlet) or check_sums()
end

local step, cursor, last = tonumber(ARGV[1]), ARGV[2], 2 + #indexes + 2 * #names
local whole = step == 1 and cursor == '0'
while step <= last and spent < BUDGET do
  cursor = run(step, cursor)
  if cursor == '0' then step = step + 1 end
end
if whole and step > last and call('HLEN', TIMELINE) <= TIMELINE_LIMIT then check_counts() end

local unknown_outlets = {}
for outlet in pairs(unknown) do unknown_outlets[#unknown_outlets + 1] = outlet end
return { step > last and 0 or step, cursor, begins, jobs, stale, aside, faults, ids, unknown_outlets }
