-- Prelude of every script that reads or writes records. `codec/record.rs` reads and writes the same layout and documents
-- it: change both together, and the version.
local call = redis.call
local byte, sub = string.byte, string.sub
local pack, unpack = struct.pack, struct.unpack

local VERSION = 32 -- in the upper half of the first byte; the state is in the lower
local DELAYED, READY, RESERVED, DEAD = 1, 2, 3, 4
local FIXED = '>BBI4I6I4I6I4I3c16BI2'
local OUTLET_AT, HEAD = 46, 48 -- the length of the outlet's name, and of all that precedes it
-- Tags of attributes. All others are above the first five: these scripts copy them, but for those that say when a job expires,
-- which clock decides in a store to which the job may be moved, which receipt is good for a late finish, the revision,
-- for how long the id is remembered, and a worker's note.
local LEASE, DIED_AT, RETRY, REASON, HISTORY = 1, 2, 3, 4, 5
local EXPIRY, MOMENT, EXPIRES_AT, EXPIRY_MOMENT = 10, 11, 12, 13
local TIMED_OUT, NO_LATE_FINISH, REVISION, DEDUP, NOTE = 14, 15, 16, 17, 18
local LAST_MOMENT, LONGEST_DELAY = 253402207199999, 315576000000
local SHORTEST_WINDOW, LONGEST_WINDOW = 1000, 604800000
local ATTRIBUTES_LIMIT = 32768

-- Whether a text is before another one, byte by byte, as Redis sorts members with equal scores. Lua's own comparison follows
-- the locale of the server.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = byte(one, i), byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- The topic of an outlet, whose name is `topic`, or `topic>3f` with a host number.
local function topic_of(outlet)
  return byte(outlet, -3) == 62 and sub(outlet, 1, -4) or outlet
end

-- Whether a text is a valid name of an outlet.
local function is_outlet_name(text)
  local topic = topic_of(text)
  return #topic <= 128 and topic ~= '.' and topic ~= '..' and string.find(topic, '^[%w._:-]+$')
    and (topic == text or string.find(text, '>[0-9a-f][0-9a-f]$'))
end

-- The field of the jobs in a state in a shard's counts. Ready jobs are counted by outlet, all others by topic.
local LETTERS = { 'd', 'r', 'v', 'x' }
local function count_field(outlet, state)
  return LETTERS[state] .. (state == READY and outlet or topic_of(outlet))
end

-- The fields of a delayed job in a shard's timeline: of the minute and of the hour in which it is due.
local function timeline_fields(outlet, due)
  local topic, minute = topic_of(outlet), math.floor(due / 60000)
  return 'm' .. pack('>I4', minute) .. topic, 'h' .. pack('>I4', math.floor(minute / 60)) .. topic
end

-- Decodes a record to a table; nil when it is not a record. `others` are the attributes with other tags, as they are.
local function decode(raw)
  if not raw or #raw <= HEAD then return nil end
  local kind, flags, gen, due, attempts, created, ttr, max, print, outlet_length, length = unpack(FIXED, raw)
  local state, at = kind - VERSION, HEAD + outlet_length + 1
  local body_at = at + length
  if state < DELAYED or state > DEAD or length > ATTRIBUTES_LIMIT or body_at > #raw then return nil end
  local job = {
    state = state, flags = flags, strict = flags % 2 == 1, gen = gen, due = due, attempts = attempts, created = created,
    ttr = ttr, max = max, print = print, outlet = sub(raw, HEAD + 1, at - 1), others = '', body = sub(raw, body_at),
  }
  if not is_outlet_name(job.outlet) then return nil end
  job.topic = topic_of(job.outlet)
  local values, last = {}, 0
  while at < body_at do
    if at + 3 > body_at then return nil end
    local tag, size = unpack('>BI2', raw, at)
    local following = at + 3 + size
    if tag <= last or following > body_at then return nil end
    if tag <= HISTORY or tag == EXPIRY or (tag >= EXPIRES_AT and tag <= DEDUP) then
      values[tag] = sub(raw, at + 3, following - 1)
    end
    if tag > HISTORY and last <= HISTORY then job.others = sub(raw, at, body_at - 1) end
    at, last = following, tag
  end
  -- A reserved job without a lease, or a dead one without a moment of death, could neither end nor be finished.
  local lease, died = values[LEASE], values[DIED_AT]
  if (state == RESERVED) ~= (lease ~= nil) or (state == DEAD) ~= (died ~= nil) then return nil end
  if (lease and #lease < 28) or (died and #died ~= 6) then return nil end
  -- Of the lease these scripts change only the receipt and the deadline.
  if lease then job.receipt, job.till, job.held = sub(lease, 1, 16), unpack('>I6', lease, 17), sub(lease, 23) end
  if died then job.died = unpack('>I6', died) end
  local expiry, expires_at = values[EXPIRY], values[EXPIRES_AT]
  if flags % 4 >= 2 then
    if not expiry or #expiry ~= 7 or not expires_at or #expires_at ~= 6 then return nil end
    local asked, ms = unpack('>BI6', expiry)
    if asked > 3 or (asked < 2 and ms > LONGEST_DELAY) then return nil end
    job.expires = unpack('>I6', expires_at)
  elseif expiry or expires_at then
    return nil
  end
  local window = values[DEDUP]
  if flags % 8 >= 4 then
    if not window or #window ~= 4 then return nil end
    job.dedup = unpack('>I4', window)
    if job.dedup < SHORTEST_WINDOW or job.dedup > LONGEST_WINDOW then return nil end
  elseif window then
    return nil
  end
  job.revision = values[REVISION]
  if job.revision and #job.revision ~= 8 then return nil end
  job.timed_out = values[TIMED_OUT]
  job.retry, job.reason, job.history = values[RETRY], values[REASON], values[HISTORY]
  if job.retry and #job.retry % 5 ~= 0 then return nil end
  return job
end

-- Whether the receipt is that of a reservation that timed out, since which the job was neither reserved nor changed.
local function takes_late(job, receipt)
  return job.state ~= RESERVED and job.timed_out == receipt .. pack('>I4', job.attempts)
end

-- Whether a reserved job replaced the version that is reserved: its reservation is none of its own attempts.
local function waits_for_older(job) return job.state == RESERVED and job.attempts == 0 end

-- Encodes a table as a record.
local function encode(job)
  local attributes = {}
  local function add(tag, value) attributes[#attributes + 1] = pack('>BI2', tag, #value) .. value end
  if job.receipt then add(LEASE, job.receipt .. pack('>I6', job.till) .. job.held) end
  if job.died then add(DIED_AT, pack('>I6', job.died)) end
  if job.retry then add(RETRY, job.retry) end
  if job.reason then add(REASON, job.reason) end
  if job.history then add(HISTORY, job.history) end
  local encoded = table.concat(attributes) .. job.others
  return pack(FIXED, VERSION + job.state, job.flags, job.gen, job.due, job.attempts, job.created, job.ttr, job.max,
    job.print, #job.outlet, #encoded) .. job.outlet .. encoded .. job.body
end

-- For a record in `state`, returns the end of its outlet's name, that name, the length of its attributes and the first tag.
-- Returns nothing when these cannot be read. For the scripts that run for every job, which cut and join bytes instead of
-- `decode` and `encode`: a lease has the lowest tag, so it always follows that name.
local function parse_head(raw, state)
  if not raw or #raw <= HEAD or byte(raw, 1) ~= VERSION + state then return nil end
  local outlet_length, high, low = byte(raw, OUTLET_AT, HEAD)
  local ends, length = HEAD + outlet_length, high * 256 + low
  if length > ATTRIBUTES_LIMIT or ends + length >= #raw then return nil end
  return ends, sub(raw, HEAD + 1, ends), length, length > 0 and byte(raw, ends + 1) or nil
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

-- The number of the run that set or removed a fence last, in 16 digits, and after a blank the origin that alone may change
-- what is stored here, or nothing if all may. Without a fence, 0 and nothing: then a shard has the mark of its store, which
-- begins with an x, in its place.
local function read_fence(fence)
  if not fence then return 0, '' end
  return tonumber(sub(fence, 1, 16)) or 0, sub(fence, 18)
end

-- The refusal of a change by `origin`, or nil. A mover, whose name begins with an m, may change nothing without a fence of
-- its own: another mover may have completed the move meanwhile.
local function refuse_fenced(fence, origin)
  local _, owner = read_fence(fence)
  if owner ~= origin and (owner ~= '' or byte(origin) == 109) then
    return redis.error_reply('FENCED these jobs are moved to another store')
  end
end

-- The refusal of a change where all was emptied: it would go on as if nothing had been there.
local function refuse_emptied() return redis.error_reply('EMPTIED what was stored here was emptied or replaced') end

-- Whether a shard has neither a mark of its store, nor a fence, nor jobs. Each shard gets its mark before its first job, so
-- this one was emptied.
local function is_emptied(fence, jobs) return not fence and call('HLEN', jobs) == 0 end
