#!lua flags=no-writes
-- Returns what a verification compares of a shard's schedules, by name.
--
-- KEYS  the schedules, the agenda
-- ARGV  the name behind which the list begins or '', the most names
-- Reply { per name of a schedule or of an entry of the agenda the name, the content or nil, the moment of the entry in
--         milliseconds or nil }
local reply = {}
for _, name in ipairs(names_behind(KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]))) do
  reply[#reply + 1] = name
  reply[#reply + 1] = call('HGET', KEYS[1], name)
  reply[#reply + 1] = call('ZSCORE', KEYS[2], name)
end
return reply
