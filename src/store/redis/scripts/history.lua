-- Prelude of the scripts that add to a job's history. `job/history.rs` documents the format and writes the same: change both
-- together.
local RELEASED, TTR_ENDED, BURIED, REQUEUED, RESCHEDULED, BY_REPLACING, REVOKED = 1, 2, 3, 4, 5, 6, 7
local HISTORY_LIMIT, REASON_LIMIT, ACTOR_LIMIT = 10, 160, 256

-- The first `limit` bytes of a text, without a part of a character at their end.
local function abridge(text, limit)
  if #text <= limit then return text end
  while limit > 0 and math.floor(byte(text, limit + 1) / 64) == 2 do limit = limit - 1 end
  return sub(text, 1, limit)
end

-- The entries of a history, each with its length; none if it is malformed.
local function split_history(history)
  local entries, at = {}, 1
  while at <= #history do
    local size = at < #history and unpack('>I2', history, at) or #history
    if at + 1 + size > #history then return {} end
    entries[#entries + 1] = sub(history, at, at + 1 + size)
    at = at + 2 + size
  end
  return entries
end

-- Appends an entry and drops the oldest ones beyond the limit.
local function remember(job, kind, at, attempt, took, by, reason)
  local entries = split_history(job.history or '')
  local names = abridge(by, ACTOR_LIMIT)
  names = pack('>I2', #names) .. names .. abridge(reason or '', REASON_LIMIT)
  entries[#entries + 1] = pack('>I2BI6I4I6', 17 + #names, kind, at, attempt, math.max(took, 0)) .. names
  job.history = table.concat(entries, '', math.max(#entries - HISTORY_LIMIT, 0) + 1)
end

-- The job is due at another time from now on. To be called before its due time is changed.
local function remember_reschedule(job, due, by)
  remember(job, RESCHEDULED, NOW, 0, 0, by, pack('>I6I6', job.due, due))
end

-- The present reservation ends now and does not finish the job.
local function remember_attempt(job, kind, reason)
  local since = unpack('>I6', job.held)
  remember(job, kind, since, job.attempts, NOW - since, sub(job.held, 7), reason)
end
