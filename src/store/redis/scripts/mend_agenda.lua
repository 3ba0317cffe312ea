#!lua flags=allow-oom
-- Mends the agenda of a shard, part by part: it has each schedule at the next moment of its content, and nothing else.
--
-- KEYS      behind those of the shard: the schedules and the agenda
-- ARGV[A..] the name behind which this part begins or ''
-- Reply     { the name behind which the next part begins or '', number of mended entries }
local SCHEDULES, AGENDA, PAGE = KEYS[#KEYS - 1], KEYS[#KEYS], 250
call('HLEN', SCHEDULES)
call('ZCARD', AGENDA)
local mended, names = 0, names_behind(SCHEDULES, AGENDA, ARGV[A], PAGE)
for _, name in ipairs(names) do
  local moment = next_moment(call('HGET', SCHEDULES, name))
  if tonumber(call('ZSCORE', AGENDA, name) or nil) ~= moment then
    mended = mended + 1
    if moment then call('ZADD', AGENDA, moment, name) else call('ZREM', AGENDA, name) end
  end
end
return { names[PAGE] or '', mended }
