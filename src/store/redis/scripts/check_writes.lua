#!lua flags=allow-oom
-- Writes nothing, but a server that cannot write refuses to run it: a replica, a disk error, too few replicas. Also fails
-- when the user lacks a permission, and when a move has closed a shard. Returns a list with 1 while the memory is full:
-- then only scripts that need memory are refused. Otherwise with 0.
--
-- KEYS  counts
-- ARGV  the channels
local names = missing()
if #names > 0 then return redis.error_reply('NOPERM the user may not run ' .. table.concat(names, ', ')) end
for _, counts in ipairs(KEYS) do
  local refused = refuse_fenced(call('HGET', counts, '!'), '')
  if refused then return refused end
end
local memory = call('INFO', 'memory')
local function bytes(name) return tonumber(string.match(memory, '\n' .. name .. ':(%d+)')) or 0 end
-- The buffers of replicas and of the append-only file do not count.
local used, limit = bytes('used_memory') - bytes('mem_not_counted_for_evict'), bytes('maxmemory')
return { limit > 0 and used > limit and 1 or 0 }
