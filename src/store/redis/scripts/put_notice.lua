#!lua flags=allow-oom
-- Writes a notice. A further one takes the place of the one that was written longest ago. Also works when memory is full: there
-- are few notices, and operators delete jobs when something is wrong.
--
-- KEYS  notices
-- ARGV  microseconds or '', the letter of the kind, id, text, '1' unless it replaces one with another text, most notices of the
--       kind, deadline by this server's clock
-- Reply {}, or the one with another text: { now in milliseconds, id, when it was written, text }
local now, _, _, server = clock(ARGV[1])
if server > tonumber(ARGV[7]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local STAMP = 6 -- bytes before the text: when it was written
local function written_at(value) return #value >= STAMP and unpack('>I6', value) or 0 end
local kind, field = ARGV[2], ARGV[2] .. ARGV[3]
local known = call('HGET', KEYS[1], field)
if known and ARGV[5] == '1' and sub(known, STAMP + 1) ~= ARGV[4] then
  return { now, ARGV[3], written_at(known), sub(known, STAMP + 1) }
end
if not known then
  local all, count, oldest, oldest_at = call('HGETALL', KEYS[1]), 0, nil, nil
  for i = 1, #all, 2 do
    if sub(all[i], 1, 1) == kind then
      local at = written_at(all[i + 1])
      count = count + 1
      if not oldest or at < oldest_at or (at == oldest_at and precedes(all[i], oldest)) then
        oldest, oldest_at = all[i], at
      end
    end
  end
  if count >= tonumber(ARGV[6]) then call('HDEL', KEYS[1], oldest) end
end
call('HSET', KEYS[1], field, pack('>I6', now) .. ARGV[4])
return {}
