#!lua
-- Sets or clears the settings of a topic, and notifies every process.
--
-- ARGV[5] the settings as values, or ''; ARGV[6] a callback (`Callback::encode`), unless '': changes nothing if the topic's
--         callback has another URL or other headers. After a second run the caller finds what the first one has set.
-- Reply   { the version of all settings, 1 if they were set or 0 }
local SETTINGS, CALLBACK = { 1, 2, 3, 4, 7, 8, 9 }, 7
if ARGV[6] ~= '' then
  local URL, HEADERS = 1, 3
  local is, was = decode_values(sub(VALUES[CALLBACK] or '', 4)), decode_values(ARGV[6])
  if is[URL] ~= was[URL] or is[HEADERS] ~= was[HEADERS] then return { version, 0 } end
end
for _, tag in ipairs(SETTINGS) do VALUES[tag] = nil end
for tag, value in pairs(decode_values(ARGV[5])) do VALUES[tag] = value end
return { store_values(), 1 }
