#!lua flags=allow-oom
-- Notes that all shards have the mark of the stored layout.
--
-- KEYS  meta
-- ARGV  the seed of that layout, the mark, deadline by this server's clock
-- Reply 1, or 0 if another layout is stored
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
if call('HGET', KEYS[1], 'seed') ~= ARGV[1] then return 0 end
call('HSET', KEYS[1], 'marked', ARGV[2])
return 1
