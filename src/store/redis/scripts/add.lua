#!lua
-- Adds jobs. When memory is full the whole call is refused, before anything is written.
--
-- ARGV[A..] per job its id and its record (`adding.lua`). Its generation is a fresh random number, so that no stale entry of its
--           id matches.
-- Reply     { set aside, per job 'C' created due | 'R' record | 'E' state due topic | 'X' when it would expire before it is due
--           | 'P' when it is not to be stored }

-- The outcomes of an earlier run: a worker may have finished such a job since, and it must not be added again.
local saved = REPLAY or {}

check_shard(DUE)
for _, keys in pairs(outlets) do call('LLEN', keys.ready) end
for i = A, #ARGV, 2 do
  if byte(ARGV[i + 1], 2) % 4 >= 2 then call('ZCARD', EXPIRIES) break end
end
local reply, any_added = { 0 }, false
for i = A, #ARGV, 2 do
  local n = #reply
  local outcome = saved[n]
  if not outcome or outcome == '' then
    local refused = refuse_rest()
    if refused then return refused end
    outcome = add(ARGV[i], ARGV[i + 1])
    saved[n] = byte(outcome) == CREATED and outcome or ''
    any_added = any_added or saved[n] ~= ''
  end
  reply[n + 1] = outcome
end
index_added()
write_counts()
if any_added then save_reply(saved) end
reply[1] = set_aside_count
return reply
