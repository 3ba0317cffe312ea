-- Prelude of the operations on one job by id: a second run answers with the job as it then stands.
--
-- ARGV[A] the caller's scope, the id, then what the script itself takes; from here on A is the place of the id
-- Reply   { OK, record, now, 1 when a list should be compacted } | { GONE } | { LOST } | { MOVED, topic } |
--         { REFUSED, state }
local SCOPE = ARGV[A]
A = A + 1
local ID = ARGV[A]
check_keys()
local RAW = within(SCOPE, call('HGET', POOL, ID))
local JOB = open(RAW)

local function again()
  if not REPLAY then return nil end
  if not RAW then return { GONE } end
  return { OK, RAW, NOW, REPLAY[1] }
end

-- Why the receipt does not hold the job; nil when it does.
local function not_held(receipt)
  if not JOB then return { GONE } end
  if JOB.state ~= RESERVED or JOB.receipt ~= receipt then return { LOST } end
end

-- Ends the script after a change; the last value says whether a list should be compacted.
local function done(compact)
  settle()
  remember({ compact or 0 })
  return { OK, call('HGET', POOL, ID), NOW, compact or 0 }
end
