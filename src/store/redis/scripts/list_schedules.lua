#!lua flags=no-writes
-- Returns schedules by name, or those with certain names.
--
-- KEYS  per shard its schedules
-- ARGV  microseconds or '', then 'names' for their names alone or 'all', the name behind which the list begins or '', and the
--       most schedules of a shard; or 'these' and names
-- Reply { now in milliseconds, per schedule its name, and its content unless only names are asked }
local reply = { (clock(ARGV[1])) }
local function add(key, name)
  if ARGV[2] == 'names' then
    reply[#reply + 1] = name
    return
  end
  local content = call('HGET', key, name)
  if content then reply[#reply + 1], reply[#reply + 2] = name, content end
end
for _, key in ipairs(KEYS) do
  if ARGV[2] == 'these' then
    for i = 3, #ARGV do add(key, ARGV[i]) end
  else
    local names = {}
    for _, name in ipairs(call('HKEYS', key)) do
      if ARGV[3] == '' or precedes(ARGV[3], name) then names[#names + 1] = name end
    end
    table.sort(names, precedes)
    for i = 1, math.min(#names, tonumber(ARGV[4])) do add(key, names[i]) end
  end
end
return reply
