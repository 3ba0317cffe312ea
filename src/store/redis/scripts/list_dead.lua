#!lua flags=no-writes
-- The first dead letters of a topic on some shards, by (moment, id), behind a given one.
--
-- KEYS  per shard the topic's dead set
-- ARGV  moment, id or '' for none, how many
-- Reply per shard a list id, moment, ...
local from, behind, room = ARGV[1], ARGV[2], tonumber(ARGV[3])
local reply = {}
for i, key in ipairs(KEYS) do
  local found, offset, page = {}, 0, nil
  repeat
    page = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', offset, room)
    for n = 1, #page, 2 do
      if #found < 2 * room and (page[n + 1] ~= from or behind == '' or page[n] > behind) then
        found[#found + 1], found[#found + 2] = page[n], page[n + 1]
      end
    end
    offset = offset + room
  until #found >= 2 * room or #page == 0
  reply[i] = found
end
return reply
