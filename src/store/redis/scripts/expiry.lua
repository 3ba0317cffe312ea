-- Prelude of the scripts that read or change when a job expires. A record has the attributes EXPIRY and EXPIRES_AT exactly if its
-- flags say that the job expires: then `flags % 4 >= 2`.

-- Where the value of an attribute begins among encoded ones, the first of which begins at `at`; nil when it is not there.
local function value_at(encoded, at, ends, wanted)
  while at < ends do
    local tag, size = unpack('>BI2', encoded, at)
    if tag >= wanted then return tag == wanted and at + 3 or nil end
    at = at + 3 + size
  end
end

-- When a job expires that has a value of EXPIRY at `at` and is due at `due`, and whether a moment was asked.
local function resolve_expiry(encoded, at, due)
  local flags, ms = unpack('>BI6', encoded, at)
  local asks_moment = flags >= 2
  return asks_moment and ms or math.min(due + ms, LAST_MOMENT), asks_moment
end
