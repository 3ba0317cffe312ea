#!lua
-- Remembers ids as they are remembered in another store. When memory is full the whole call is refused, before anything is
-- written.
--
-- ARGV[A..] the maximum number of remembered ids of this shard; per id it and what is remembered of it
-- Reply     { ids forgotten early, per id 1 when it was stored, 2 when it is there already or its window has passed, 3 when another
--           value is there that is not older, or when there are too many ids whose windows end later }
if REPLAY then return REPLAY end
check_remembered()
local DONE, EXISTS, DIFFERS = 1, 2, 3
local most, reply = tonumber(ARGV[A]), { 0 }
for i = A + 1, #ARGV, 2 do
  local id, value = ARGV[i], ARGV[i + 1]
  local stored = call('HGET', REMEMBERED, id)
  local outcome = DONE
  local till = unpack('>I6', value, 8)
  if stored == value or till <= NOW then
    outcome = EXISTS
  elseif stored and #stored > REMEMBERED_HEAD and unpack('>I6', stored, 2) >= unpack('>I6', value, 2) then
    outcome = DIFFERS
  elseif not stored and call('ZCARD', FORGET) >= most and tonumber(call('ZRANGE', FORGET, 0, 0, 'WITHSCORES')[2]) >= till then
    outcome = DIFFERS
  else
    put_remembered(id, value, till, most)
  end
  reply[#reply + 1] = outcome
end
reply[1] = forgotten_early
return save_reply(reply)
