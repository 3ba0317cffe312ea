#!lua flags=allow-oom
-- Stores a layout in place of the one that is stored, or of none: the loss of the stores that were here is accepted.
--
-- KEYS  meta
-- ARGV  format, number of shards and seed; the seed that is stored now, '' for none; deadline by this server's clock
-- Reply that of `get_layout.lua`: the stored layout is another one if another process was faster
local _, _, _, server = clock('')
if server > tonumber(ARGV[5]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local stored = call('HMGET', KEYS[1], 'seed', 'marked', 'missed', 'replaces')
if (stored[1] or '') == ARGV[4] then
  local replaces, lost = stored[4] or '', { stored[3] or '' }
  if ARGV[3] ~= ARGV[4] then lost[2] = stored[2] or '' end
  for _, mark in ipairs(lost) do
    if mark ~= '' and not string.find(replaces, mark, 1, true) then replaces = replaces .. mark .. ' ' end
  end
  call('HSET', KEYS[1], 'format', ARGV[1], 'shards', ARGV[2], 'seed', ARGV[3], 'replaces', replaces)
  call('HDEL', KEYS[1], 'missed')
  if lost[2] then call('HDEL', KEYS[1], 'marked') end
end
return call('HMGET', KEYS[1], 'format', 'shards', 'seed', 'move', 'marked', 'replaces', 'missed')
