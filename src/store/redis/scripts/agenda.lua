-- Prelude of the scripts that read schedules: what is stored for the name of one, and when the agenda is to have it.
--
-- A content is the next moment in six bytes, 0 for none, and a text that only the caller reads. The agenda is a sorted set of
-- the names by their next moments.

-- The next moment in a content; nil if there is none.
local function next_moment(content)
  local moment = content and #content >= 6 and unpack('>I6', content) or 0
  return moment > 0 and moment or nil
end

-- Up to `limit` names behind `after`, in order, of schedules and of entries of the agenda.
local function names_behind(schedules, agenda, after, limit)
  local names, seen = {}, {}
  local function add(name)
    if not seen[name] and (after == '' or precedes(after, name)) then seen[name], names[#names + 1] = true, name end
  end
  for _, name in ipairs(call('HKEYS', schedules)) do add(name) end
  for _, name in ipairs(call('ZRANGE', agenda, 0, -1)) do add(name) end
  table.sort(names, precedes)
  for i = #names, limit + 1, -1 do names[i] = nil end
  return names
end
