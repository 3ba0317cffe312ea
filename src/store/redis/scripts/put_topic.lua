#!lua
-- Stores what is set for a topic if nothing is set for it yet, and notifies every process.
--
-- ARGV[5] the values
-- Reply   1 when they were stored, 2 when they are there already, 3 when others are
local stored = call('HGET', KEYS[1], ARGV[2])
if stored == ARGV[5] then return { 2 } end
if stored and stored ~= '' then return { 3 } end
VALUES = decode_values(ARGV[5])
store_values()
return { 1 }
