#!lua
-- Sets or removes the fence of a shard or of the settings, which stops the changes of all others.
--
-- KEYS  counts of the shard, or settings
-- ARGV  the origin that may go on with changes, or '' to remove the fence; deadline by this server's clock
-- Reply 1
local _, _, _, server = clock('')
if server > tonumber(ARGV[2]) then return refuse_late() end
local refused = denied()
if refused then return refused end
if ARGV[1] == '' then
  call('HDEL', KEYS[1], '!')
else
  call('HSET', KEYS[1], '!', ARGV[1])
end
return 1
