#!lua flags=no-writes
-- Returns all topics' settings and pauses, unless the caller has the current version, and whether a client reads the
-- figures of all processes, and the time.
--
-- KEYS  settings, notices, meta
-- ARGV  the version that the caller has, microseconds or '', for how many milliseconds a watch notice counts
-- Reply { the time in microseconds, 1 if a client reads the figures or 0, nil or every field and value }
local attempt = redis.pcall -- notices must not keep settings from being read
local watch, watched = attempt('HGET', KEYS[2], 'w'), 0
local now, _, now_us = clock(ARGV[2])
if type(watch) == 'string' and #watch >= 6 and now - unpack('>I6', watch) < tonumber(ARGV[3]) then watched = 1 end
local version = call('HGET', KEYS[1], '#')
if version == ARGV[1] then return { now_us, watched, false } end
-- The caller keeps what it has: on a Cluster it may still add jobs, which need the settings of their topic.
if not version and (tonumber(ARGV[1]) or 0) > 0 and not call('HGET', KEYS[3], 'seed') then return refuse_emptied() end
return { now_us, watched, call('HGETALL', KEYS[1]) }
