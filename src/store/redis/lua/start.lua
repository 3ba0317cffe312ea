#!lua
-- Writes the layout at the very first start, or where it was lost; tells what it is.
--
-- KEYS  meta
-- ARGV  format, and the number of shards where none is stored
call('HSETNX', KEYS[1], 'format', ARGV[1])
call('HSETNX', KEYS[1], 'shards', ARGV[2])
return call('HMGET', KEYS[1], 'format', 'shards')
