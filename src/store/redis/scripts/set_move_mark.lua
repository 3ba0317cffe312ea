#!lua flags=allow-oom
-- Replaces the mark of a move, if it is as expected. A second run, after the reply to the first was lost, succeeds, too.
--
-- KEYS  meta
-- ARGV  the expected mark or '', the new mark, deadline by this server's clock
-- Reply 1 if the mark is the new one now, otherwise 0
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local stored = call('HGET', KEYS[1], 'move') or ''
if stored == ARGV[2] then return 1 end
if stored ~= ARGV[1] then return 0 end
call('HSET', KEYS[1], 'move', ARGV[2])
return 1
