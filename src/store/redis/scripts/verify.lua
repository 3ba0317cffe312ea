#!lua flags=no-writes
-- Verifies a shard, or as much of it as fits in one run: compares every record with its indexes, every
-- index entry with its record, and the counts with both. A shard that fits in one run is verified as
-- of one moment. In a larger one, each page and each ready list is verified as of one moment. Its counts per topic
-- and its timeline are then not compared with the records; the sums of its counts are compared with the sizes of the
-- indexes.
--
-- KEYS  those of `shard.lua`, of one shard
-- ARGV  step and cursor to continue from, the outlets
-- Reply { next step or 0, next cursor, jobs, stale, set aside, faults, ids of the jobs, outlets whose
--         keys are needed: the caller repeats the step with them }
local BUDGET, PAGE, FAULT_LIMIT, BROKEN_LIMIT, TIMELINE_LIMIT = 10000, 100, 20, 10000, 40000
local JOBS, DUE, LEASES, COUNTS, REPLAY_SLOTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DEAD_BY_TIME, BROKEN, TIMELINE = KEYS[6], KEYS[7], KEYS[8]

local names, outlets = {}, {}
for i = 3, #ARGV do
  names[i - 2] = ARGV[i]
  outlets[ARGV[i]] = { ready = KEYS[2 * i + 3], dead = KEYS[2 * i + 4] }
end

local spent, jobs, stale, aside = 0, 0, 0, 0
local faults, ids, unknown, tally = {}, {}, {}, {}

local function fault(...)
  if #faults < FAULT_LIMIT then faults[#faults + 1] = table.concat({ ... }) end
end

local function read(id)
  local raw = call('HGET', JOBS, id)
  spent = spent + 1 + (raw and #raw or 0) / 1024
  return decode(raw)
end

-- The expected score of a job in each index; nil when it should not be there.
local function due_score(job)
  if job.state == DELAYED then return job.due end
end
local function lease_score(job) return job.till end
local function death_score(job) return job.died end

local function check_score(id, index, key, expected)
  local score = call('ZSCORE', key, id)
  if expected and not score then
    fault('job ', id, ': it is missing in ', index)
  elseif score and not expected then
    fault('job ', id, ': it should not be in ', index)
  elseif expected and tonumber(score) ~= expected then
    fault('job ', id, ': it has a wrong score in ', index)
  end
end

local function add_to_tally(field) tally[field] = (tally[field] or 0) + 1 end

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
  add_to_tally(count_field(job.outlet, job.state))
  if job.state == DELAYED then
    local minute, hour = timeline_fields(job.outlet, job.due)
    add_to_tally(minute)
    add_to_tally(hour)
  end
  check_score(id, 'due', DUE, due_score(job))
  check_score(id, 'leases', LEASES, lease_score(job))
  check_score(id, 'dead_by_time', DEAD_BY_TIME, death_score(job))
  local own = outlets[job.outlet]
  if own then
    check_score(id, 'the dead letters of its topic', own.dead, death_score(job))
  else
    unknown[job.outlet] = true
  end
end

local function check_entry(index, id, score, topic, expected_score)
  local job = read(id)
  if not job then
    fault('entry ', id, ' of ', index, ': it leads to no job')
  elseif expected_score(job) ~= tonumber(score) or (topic and job.topic ~= topic) then
    fault('entry ', id, ' of ', index, ': the job is not what it says')
  end
end

-- Checks one page of a table; returns the next cursor.
local function page(command, key, cursor, check)
  local found = call(command, key, cursor, 'COUNT', PAGE)
  for i = 1, #found[2], 2 do check(found[2][i], found[2][i + 1]) end
  return found[1]
end

local function check_index(index, key, cursor, topic, expected_score)
  return page('ZSCAN', key, cursor, function(id, score) check_entry(index, id, score, topic, expected_score) end)
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
  check_size('due', call('ZCARD', DUE), sums.d)
  check_size('leases', call('ZCARD', LEASES), sums.v)
  check_size('dead_by_time', call('ZCARD', DEAD_BY_TIME), sums.x)
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

-- The steps in order: jobs, due, leases, dead letters by time, each topic's dead letters, each outlet's ready list, sums.
local function run(step, cursor)
  if step == 1 then return page('HSCAN', JOBS, cursor, check_record) end
  if step == 2 then return check_index('due', DUE, cursor, nil, due_score) end
  if step == 3 then return check_index('leases', LEASES, cursor, nil, lease_score) end
  if step == 4 then return check_index('dead_by_time', DEAD_BY_TIME, cursor, nil, death_score) end
  local outlet = names[step - 4]
  if outlet then
    -- The dead letters of a topic are checked with its plain outlet.
    local is_plain = topic_of(outlet) == outlet
    return is_plain and check_index('the dead letters', outlets[outlet].dead, cursor, outlet, death_score) or '0'
  end
  outlet = names[step - 4 - #names]
  return outlet and check_ready(outlet) or check_sums()
end

local step, cursor, last = tonumber(ARGV[1]), ARGV[2], 5 + 2 * #names
local whole = step == 1 and cursor == '0'
while step <= last and spent < BUDGET do
  cursor = run(step, cursor)
  if cursor == '0' then step = step + 1 end
end
if whole and step > last and call('HLEN', TIMELINE) <= TIMELINE_LIMIT then check_counts() end

local unknown_outlets = {}
for outlet in pairs(unknown) do unknown_outlets[#unknown_outlets + 1] = outlet end
return { step > last and 0 or step, cursor, jobs, stale, aside, faults, ids, unknown_outlets }
