#!lua flags=no-writes
-- Returns the counts of a shard: all as of one moment, or page by page if there are very many.
--
-- KEYS  counts
-- ARGV  cursor, how many at most, about
-- Reply { next cursor, { field, count, ... } }
if ARGV[1] == '0' and redis.call('HLEN', KEYS[1]) <= tonumber(ARGV[2]) then
  return { '0', redis.call('HGETALL', KEYS[1]) }
end
return redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
