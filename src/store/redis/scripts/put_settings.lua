#!lua
-- Sets or clears the settings of a topic, and notifies every process.
--
-- ARGV[4] the settings as values, or ''
-- Reply   { the version of all settings }
local SETTINGS = { 1, 2, 3, 4, 7, 8, 9 }
for _, tag in ipairs(SETTINGS) do VALUES[tag] = nil end
for tag, value in pairs(decode_values(ARGV[4])) do VALUES[tag] = value end
return { store_values() }
