#!lua
-- Adds jobs, of which some replace those with their ids, and some have ids that may be remembered. When memory is full the whole
-- call is refused, before anything is written.
--
-- ARGV[A..] per job its id, its record (`adding.lua`), and '', or '+' and the actor when the add replaces a job
-- Reply     { set aside, 1 when a list should be compacted, per job as in `add.lua`, or 'S' record when it has replaced a job
--           | 'T' created due when an earlier run of this call replaced the job, which has ended since | 'V' revision when that of the stored
--           job is higher | 'M' outlet when the keys of that one are needed | 'F' or 'D' with what is remembered of its id
--           (`remembering.lua`) }

-- The outcomes of an earlier run: a worker may have finished such a job since, and it must not be added again.
local saved = REPLAY or {}
local REPLACED_BEFORE = 84 -- 'T'

check_keys()
check_remembered()
local left_ready, needs_keys = {}, {}

-- Puts a job in the place of another one.
local function swap(id, old, new, due, by)
  local receipt, till, held = old.receipt, old.till, old.held
  if old.state == READY then left_ready[old.outlet] = true end
  leave_state(id, old, receipt and RESERVED or nil)
  new.gen, new.due, new.created, new.history = old.gen, due, NOW, old.history
  remember(new, BY_REPLACING, NOW, 0, 0, by)
  if receipt then
    new.receipt, new.till, new.held = receipt, till, held
    enter_state(id, new, RESERVED)
  elseif due <= NOW then
    push_ready(id, new)
    enter_state(id, new, READY)
  else
    new.gen = (new.gen + 1) % 4294967296
    call('ZADD', DUE, due, id)
    enter_state(id, new, DELAYED)
  end
end

-- Returns the outcome, and what to save of it.
local function add_rare(id, raw, by)
  if needs_keys[id] then return 'M' .. needs_keys[id], '' end
  local stored = call('HGET', JOBS, id)
  local old, new = decode(stored), decode(raw)
  local ended = not old and new.dedup and ended_before(id, new, by ~= '')
  if ended then return ended, '' end
  if by == '' or not old or old.topic ~= new.topic then
    local outcome = add(id, raw)
    if byte(outcome) ~= CREATED then return outcome, '' end
    if new.dedup then forget(id) end
    return outcome, outcome
  end
  local revision, stored_revision = new.revision, old.revision
  if revision and revision == stored_revision then return 'R' .. stored, '' end
  if revision and stored_revision and precedes(revision, stored_revision) then return 'V' .. stored_revision, '' end
  if new.created % 4 >= 2 then return 'P', '' end
  local is_moment = new.created % 2 == 1
  local due = due_at(is_moment, new.due)
  if count_expiry(new, due, is_moment) then return 'X', '' end
  if has_outlet_key(old.state) and not outlets[old.outlet] then
    needs_keys[id] = old.outlet
    return 'M' .. old.outlet, ''
  end
  swap(id, old, new, due, sub(by, 2))
  return 'S' .. call('HGET', JOBS, id), 'T' .. pack('>I6I6', NOW, due)
end

local reply, any_saved = { 0, 0 }, false
for i = A, #ARGV, 3 do
  local n = #reply
  local outcome = saved[n]
  if not outcome or outcome == '' then
    local refused = refuse_rest()
    if refused then return refused end
    outcome, saved[n] = add_rare(ARGV[i], ARGV[i + 1], ARGV[i + 2])
    -- Before another one of this call reads it.
    index_added()
    any_saved = any_saved or saved[n] ~= ''
  elseif byte(outcome) == REPLACED_BEFORE then
    local stored = call('HGET', JOBS, ARGV[i])
    local job = decode(stored)
    if job and job.topic == decode(ARGV[i + 1]).topic then outcome = 'S' .. stored end
  end
  reply[n + 1] = outcome
end
write_counts()
if any_saved then save_reply(saved) end
for outlet in pairs(left_ready) do
  if has_many_stale(outlet) then reply[2] = 1 end
end
reply[1] = set_aside_count
return reply
