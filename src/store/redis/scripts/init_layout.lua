#!lua
-- Stores the layout at the very first start, which is none while a process misses its store here. Returns what
-- `get_layout.lua` does.
--
-- KEYS  meta
-- ARGV  format, number of shards and seed of host numbers to store if there are none, deadline by this server's clock
local _, _, _, server = clock('')
if server > tonumber(ARGV[4]) then return refuse_late() end
local refused = denied()
if refused then return refused end
if not call('HGET', KEYS[1], 'missed') then
  call('HSETNX', KEYS[1], 'format', ARGV[1])
  call('HSETNX', KEYS[1], 'shards', ARGV[2])
  call('HSETNX', KEYS[1], 'seed', ARGV[3])
end
return call('HMGET', KEYS[1], 'format', 'shards', 'seed', 'move', 'marked', 'replaces', 'missed')
