#!lua flags=allow-oom
-- Finishes jobs: they are gone.
--
-- ARGV[A..] per job its id, its receipt or '', and its caller's scope
-- Reply     per job a code and a topic ('' unless done)
local NOT_RESERVED, RECEIPT_REQUIRED = 6, 7
if REPLAY then return REPLAY end

-- The code for a job, and its topic when it is to go.
local function judge(raw, receipt)
  local ends, topic, flags = outline(raw, RESERVED)
  if ends and flags >= 4 and flags < 8 and ends + 22 < #raw and receipt == sub(raw, ends + 1, ends + 16) then
    return OK, topic
  end
  local job = open(raw)
  if not job then return GONE, '' end
  if receipt == '' and job.strict then return RECEIPT_REQUIRED, '' end
  if receipt == '' and job.state ~= RESERVED then return NOT_RESERVED, '' end
  if receipt ~= '' and receipt ~= job.receipt then return LOST, '' end
  return OK, job.topic
end

local reply, changed = {}, false
for i = A, #ARGV, 3 do
  local id = ARGV[i]
  local code, topic = judge(head_of(POOL, ARGV[i + 2], id), ARGV[i + 1])
  if code == OK then
    changed, heads[id] = true, false
    call('ZREM', BUCKET, id)
    call('HDEL', POOL, id)
    count(topic, RESERVED, -1)
  end
  reply[#reply + 1], reply[#reply + 2] = code, topic
end
settle()
return changed and remember(reply) or reply
