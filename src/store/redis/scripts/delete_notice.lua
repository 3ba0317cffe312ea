#!lua flags=allow-oom
-- Deletes a notice.
--
-- KEYS  notices
-- ARGV  the letter of the kind, id, deadline by this server's clock
local _, _, _, server = clock('')
if server > tonumber(ARGV[3]) then return refuse_late() end
local refused = denied()
if refused then return refused end
return call('HDEL', KEYS[1], ARGV[1] .. ARGV[2])
