-- Prelude of every script that reads or writes records. `codec/record.rs` reads and writes the same layout and documents
-- it: change both together, and the version.
local call = redis.call
local byte, sub = string.byte, string.sub
local pack, unpack = struct.pack, struct.unpack

local VERSION = 16 -- in the upper half of the first byte; the state is in the lower
local DELAYED, READY, RESERVED, DEAD = 1, 2, 3, 4
local FIXED = '>BBI4I6I4I6I4I3'
local TOPIC_AT = 46

-- Whether a text is a valid name of a topic.
local function is_topic_name(text)
  return #text <= 128 and text ~= '.' and text ~= '..' and string.find(text, '^[%w._:-]+$')
end

-- Decodes a record to a table; nil when it is not a record.
local function decode(raw)
  if not raw or #raw <= TOPIC_AT then return nil end
  local kind, flags, gen, due, attempts, created, ttr, max = unpack(FIXED, raw)
  local state = kind - VERSION
  local at = TOPIC_AT + 1 + byte(raw, TOPIC_AT)
  if state < DELAYED or state > DEAD or flags > 31 or at > #raw then return nil end
  if not is_topic_name(sub(raw, TOPIC_AT + 1, at - 1)) then return nil end
  local job = {
    state = state, gen = gen, due = due, attempts = attempts, created = created, ttr = ttr, max = max,
    print = sub(raw, 30, 45), topic = sub(raw, TOPIC_AT + 1, at - 1), strict = flags % 2 == 1,
  }
  if flags % 4 >= 2 then
    local ends = at + 1 + 5 * byte(raw, at)
    job.retry = sub(raw, at + 1, ends - 1)
    at = ends
  end
  if flags % 8 >= 4 then
    if at + 22 > #raw then return nil end
    job.receipt, job.till = unpack('>c16I6', raw, at)
    at = at + 22
  end
  if flags % 16 >= 8 then
    if at + 6 > #raw then return nil end
    job.died = unpack('>I6', raw, at)
    at = at + 6
  end
  if flags >= 16 then
    if at + 2 > #raw then return nil end
    local ends = at + 2 + unpack('>I2', raw, at)
    job.reason = sub(raw, at + 2, ends - 1)
    at = ends
  end
  if at > #raw then return nil end
  -- A reserved job without a receipt, or a dead one without a moment of death, could neither end nor be finished.
  if (state == RESERVED) ~= (job.receipt ~= nil) or (state == DEAD) ~= (job.died ~= nil) then return nil end
  job.body = sub(raw, at)
  return job
end

-- Encodes a table as a record.
local function encode(job)
  local flags, parts = job.strict and 1 or 0, { '', job.print, pack('B', #job.topic), job.topic }
  if job.retry then
    flags = flags + 2
    parts[#parts + 1] = pack('B', #job.retry / 5) .. job.retry
  end
  if job.receipt then
    flags = flags + 4
    parts[#parts + 1] = pack('>c16I6', job.receipt, job.till)
  end
  if job.died then
    flags = flags + 8
    parts[#parts + 1] = pack('>I6', job.died)
  end
  if job.reason then
    flags = flags + 16
    parts[#parts + 1] = pack('>I2', #job.reason) .. job.reason
  end
  parts[1] = pack(FIXED, VERSION + job.state, flags, job.gen, job.due, job.attempts, job.created, job.ttr, job.max)
  parts[#parts + 1] = job.body
  return table.concat(parts)
end

-- For a record in `state`, returns the end of its retry schedule, or else of its topic; the topic; the flags. Returns
-- nothing when these cannot be read. For the scripts that run for every job, which cut and join bytes instead of `decode` and `encode`.
local function parse_head(raw, state)
  if not raw or #raw <= TOPIC_AT or byte(raw, 1) ~= VERSION + state then return nil end
  local flags, ends = byte(raw, 2), TOPIC_AT + byte(raw, TOPIC_AT)
  local topic = sub(raw, TOPIC_AT + 1, ends)
  if flags % 4 >= 2 then ends = ends + 1 + 5 * (byte(raw, ends + 1) or #raw) end
  if ends < #raw then return ends, topic, flags end
end

-- Splits an entry of a ready list: generation, moment when it was pushed, id. The id is empty if it is no entry.
local function read_entry(entry)
  if #entry <= 10 then return nil, nil, '' end
  local gen, since = unpack('>I4I6', entry)
  return gen, since, sub(entry, 11)
end

-- The present moment by `given` microseconds (tests), otherwise by this server's clock: rounded down for
-- comparing, rounded up as the start of delays, and in microseconds; then this server's clock in any case,
-- in microseconds. A double represents them exactly.
local function clock(given)
  local time = call('TIME')
  local server = time[1] * 1000000 + time[2]
  local micros = given == '' and server or tonumber(given)
  return math.floor(micros / 1000), math.ceil(micros / 1000), micros, server
end

-- Refuses a call that arrives after its deadline: the caller may have
-- reported a failure since, and its client may have repeated the call and gone on.
local function refuse_late() return redis.error_reply('LATE the call arrived after its latest moment') end
