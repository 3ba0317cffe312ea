#!lua flags=allow-oom
-- Sets or removes the fence of a shard or of the settings, which stops the changes of all others. Also works when
-- memory is full: a store is moved away then, too.
--
-- KEYS  counts of the shard, or settings
-- ARGV  number of the run, the origin that alone may go on with changes or '' to let all go on, deadline by this server's
--       clock
-- Reply 1, or 0 if a run with a higher number has set or removed it
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local number = read_fence(call('HGET', KEYS[1], '!'))
if number > tonumber(ARGV[1]) then return 0 end
call('HSET', KEYS[1], '!', string.format('%016.0f ', ARGV[1]) .. ARGV[2])
return 1
