#!lua flags=no-writes
-- Returns counts of a shard: as of one moment, or page by page if the shard has very many.
--
-- KEYS  counts
-- ARGV  cursor, how many to go through at most, about, what the names of the topics begin with, or '' for all counts
-- Reply { next cursor, { field, count, ... } }
local prefix = ARGV[3]
if ARGV[1] == '0' and redis.call('HLEN', KEYS[1]) <= tonumber(ARGV[2]) then
  local all, found = redis.call('HGETALL', KEYS[1]), {}
  if prefix == '' then return { '0', all } end
  for i = 1, #all, 2 do
    -- The first letter is that of the state.
    if string.sub(all[i], 2, #prefix + 1) == prefix then found[#found + 1], found[#found + 2] = all[i], all[i + 1] end
  end
  return { '0', found }
end
if prefix == '' then return redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2]) end
-- No character of a name has a meaning in a pattern.
return redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2], 'MATCH', '?' .. prefix .. '*')
