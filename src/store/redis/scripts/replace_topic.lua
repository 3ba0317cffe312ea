#!lua
-- Replaces everything that is set for a topic, and notifies every process.
--
-- ARGV[5] the values, or '' for none
-- Reply   1
VALUES = decode_values(ARGV[5])
store_values()
return 1
