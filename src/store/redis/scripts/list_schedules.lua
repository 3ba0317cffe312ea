#!lua flags=no-writes
-- Returns schedules by name, or one.
--
-- KEYS  per shard its schedules
-- ARGV  microseconds or '', the name behind which the list begins or '', the most schedules of a shard, the only name or ''
-- Reply { now in milliseconds, per schedule its name and its content }
local reply = { (clock(ARGV[1])) }
local function add(key, name)
  local content = call('HGET', key, name)
  if content then reply[#reply + 1], reply[#reply + 2] = name, content end
end
for _, key in ipairs(KEYS) do
  if ARGV[4] ~= '' then
    add(key, ARGV[4])
  else
    local names = {}
    for _, name in ipairs(call('HKEYS', key)) do
      if ARGV[2] == '' or precedes(ARGV[2], name) then names[#names + 1] = name end
    end
    table.sort(names, precedes)
    for i = 1, math.min(#names, tonumber(ARGV[3])) do add(key, names[i]) end
  end
end
return reply
