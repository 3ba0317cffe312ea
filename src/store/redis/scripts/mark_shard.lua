#!lua flags=allow-oom
-- Gives a shard the mark of its store, unless it has a fence. Also works when memory is full: it needs a few bytes.
--
-- KEYS  counts
-- ARGV  the mark, '1' to replace that of another store, deadline by this server's clock
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local fence = call('HGET', KEYS[1], '!')
if not fence or (ARGV[2] == '1' and byte(fence) == 120) then call('HSET', KEYS[1], '!', ARGV[1]) end
return 1
