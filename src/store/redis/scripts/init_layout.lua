#!lua
-- Writes the layout at the very first start, or where it was lost; tells what it is.
--
-- KEYS  meta
-- ARGV  format, and the number of shards where none is stored, latest moment by this server's clock
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return late() end
local refused = denied()
if refused then return refused end
call('HSETNX', KEYS[1], 'format', ARGV[1])
call('HSETNX', KEYS[1], 'shards', ARGV[2])
return call('HMGET', KEYS[1], 'format', 'shards')
