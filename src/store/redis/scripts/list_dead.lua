#!lua flags=no-writes
-- Lists the first dead letters of a topic on some shards, by (moment, id), after a given one.
--
-- KEYS  per shard the topic's dead set
-- ARGV  moment, id or '' for none, how many
-- Reply per shard a list id, moment, ...
local from, after, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local reply = {}
for i, key in ipairs(KEYS) do
  local found, offset, page = {}, 0, nil
  repeat
    page = call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', offset, limit)
    for n = 1, #page, 2 do
      if #found < 2 * limit and (page[n + 1] ~= from or after == '' or precedes(after, page[n])) then
        found[#found + 1], found[#found + 2] = page[n], page[n + 1]
      end
    end
    offset = offset + limit
  until #found >= 2 * limit or #page == 0
  reply[i] = found
end
return reply
