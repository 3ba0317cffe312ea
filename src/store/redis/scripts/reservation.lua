-- Prelude of the operations on one job by id: a second run replies with the job as it is then.
--
-- ARGV[A] the caller's scope, the id, then the script's own arguments; from here on ARGV[A] is the id
-- Reply   { OK, record, now, 1 when a list should be compacted } | { GONE } | { LOST } | { LATE_FINISH } |
--         { MOVED, outlet } | { REFUSED, state } | { REPLACED, outlet }
local SCOPE = ARGV[A]
A = A + 1
local ID = ARGV[A]
check_keys()
local RAW = in_scope(SCOPE, call('HGET', JOBS, ID))
local JOB = decode(RAW)

local function replayed_reply()
  if not REPLAY then return nil end
  if REPLAY[2] then return { REPLACED, REPLAY[2] } end
  if not RAW then return { GONE } end
  return { OK, RAW, NOW, REPLAY[1] }
end

-- The reply if the receipt is not that of the present reservation; nil if it is.
local function receipt_fault(receipt)
  if not JOB then return { GONE } end
  if JOB.state ~= RESERVED or JOB.receipt ~= receipt then return { takes_late(JOB, receipt) and LATE_FINISH or LOST } end
end

-- The reply if the job waits for the holder of an older version, whose reservation then ends; nil if it does not.
local function older_fault()
  if not waits_for_older(JOB) then return nil end
  if not outlets[JOB.outlet] then return { MOVED, JOB.outlet } end
  end_older(ID, JOB)
  write_counts()
  save_reply({ 0, JOB.outlet })
  return { REPLACED, JOB.outlet }
end

-- Ends the script after a change; `compact` is 1 when a list should be compacted.
local function done(compact)
  write_counts()
  save_reply({ compact or 0 })
  return { OK, call('HGET', JOBS, ID), NOW, compact or 0 }
end
