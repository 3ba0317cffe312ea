-- Prelude of every script that changes one shard: its keys and arguments, its counts, and how it
-- recognises a second run. After the six keys of the shard come two per topic that the caller
-- knew of; a script that needs another topic's answers MOVED before it has written anything.
--
-- KEYS  1 pool  2 bucket  3 counts  4 lanes  5 graves  6 broken, then ready list and dead set per topic
-- ARGV  1 microseconds or ''  2 latest moment by this server's clock in microseconds  3 channel  4 origin
--       5 lane or ''  6 sequence  7 number of topics, the topics, then from ARGV[A] what the script itself takes
local POOL, BUCKET, COUNTS, LANES, GRAVES, BROKEN = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local ORIGIN = ARGV[4]
local NOW, NOW_UP, MICROS, SERVER_MICROS = clock(ARGV[1])
local known = tonumber(ARGV[7])
local A = 8 + known
local OK, GONE, LOST, MOVED, REFUSED = 1, 2, 3, 4, 5
local BROKEN_LIMIT = 10000

local topics = {}
for i = 1, known do
  topics[ARGV[7 + i]] = { ready = KEYS[5 + 2 * i], dead = KEYS[6 + 2 * i] }
end

-- What an earlier run of this same call answered, or nil: its lane still holds its sequence. It counts
-- also after the latest moment. A call whose lane has gone on to a later one was given up by its caller.
local REPLAY = nil
if ARGV[5] ~= '' then
  local saved = call('HGET', LANES, ARGV[5])
  if saved then
    local sequence, own = unpack('>I6', saved), tonumber(ARGV[6])
    if sequence > own then return late() end
    if sequence == own then REPLAY = cmsgpack.unpack(sub(saved, 13)) end
  end
end
local IS_LATE = SERVER_MICROS > tonumber(ARGV[2])
if IS_LATE and not REPLAY then return late() end

-- Keeps `reply` for a second run, and returns it.
local function remember(reply)
  call('HSET', LANES, ARGV[5], pack('>I6I6', ARGV[6], NOW) .. cmsgpack.pack(reply))
  return reply
end

local LETTERS = { 'd', 'r', 'v', 'x' }
local deltas, aside = {}, 0

local function count(topic, state, by)
  local field = LETTERS[state] .. topic
  deltas[field] = (deltas[field] or 0) + by
end

-- Writes the counts, and returns those that changed. The first ready job of a topic is announced to every
-- process: while one is ready they all know, or will find it when they look before they answer with less than
-- was asked, or soon after.
local function settle()
  local lefts = {}
  for field, by in pairs(deltas) do
    if by ~= 0 then
      local left, topic = call('HINCRBY', COUNTS, field, by), sub(field, 2)
      lefts[field] = math.max(left, 0)
      if left <= 0 then
        call('HDEL', COUNTS, field)
        -- Whatever the list still holds is stale.
        if byte(field) == 114 and topics[topic] then call('UNLINK', topics[topic].ready) end
      elseif left == by and byte(field) == 114 then
        local pulse = call('HINCRBY', COUNTS, '#', 1)
        call('PUBLISH', ARGV[3], ORIGIN .. ' ' .. string.format('%.0f', pulse) .. ' ' .. topic)
      end
    end
  end
  deltas = {}
  return lefts
end

-- Moves what cannot be read out of the way. When the place for such things is full the record stays
-- in the pool, out of every index: nothing is dropped to save room.
local function set_aside(id, raw)
  aside = aside + 1
  call('ZREM', BUCKET, id)
  call('ZREM', GRAVES, id)
  if call('HLEN', BROKEN) < BROKEN_LIMIT then
    call('HSET', BROKEN, id, raw or '')
    if raw then call('HDEL', POOL, id) end
  end
end

-- When a job is due that is to wait until the moment `ms`, or for `ms`; no delay is at once.
local function due_at(absolute, ms)
  if absolute then return math.max(ms, NOW) end
  return ms == 0 and NOW or NOW_UP + ms
end
