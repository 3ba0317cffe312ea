#!lua flags=allow-oom
-- Takes calls of a topic's rate: evenly spaced, with bursts of a tenth of a second. `store/rate_limit.rs` does the same. A
-- second run takes as many again, which only makes the next calls later.
--
-- KEYS  rate limits
-- ARGV  microseconds or '', topic, thousandths of a call a second, how many at most, deadline by this server's clock
-- Reply { number of calls, microseconds until the next one is free, quarters of a microsecond that are stored }
local _, _, now, server = clock(ARGV[1])
if server > tonumber(ARGV[5]) then return refuse_late() end
local refused = denied()
if refused then return refused end
local spacing, burst = 1e9 / ARGV[3], math.max(math.floor(ARGV[3] / 10000), 1)
local stored = tonumber(call('HGET', KEYS[1], ARGV[2]) or 0) or 0
-- A clock that stepped back, or a lower rate before, must not delay the next call for longer than this rate does.
local free_at = math.min(math.max(stored, now - (burst - 1) * spacing), now + spacing)
-- A double has a resolution of a quarter of a microsecond here.
local free = free_at - now <= 0.3 and math.floor((now - free_at) / spacing + 0.01) + 1 or 0
local taken = math.min(tonumber(ARGV[4]), free)
free_at = free_at + taken * spacing
if taken > 0 or free_at < stored then call('HSET', KEYS[1], ARGV[2], string.format('%.3f', free_at)) end
if taken > 0 then
  -- Removes topics that made no call lately: a burst is shorter than a tenth of a second, so their moment says nothing.
  local some = call('HRANDFIELD', KEYS[1], 2, 'WITHVALUES')
  for i = 1, #some, 2 do
    if (tonumber(some[i + 1]) or 0) < now - 1e5 then call('HDEL', KEYS[1], some[i]) end
  end
end
return { taken, math.max(math.ceil(free_at - now - 0.3), 0), free_at * 4 }
