#!lua flags=allow-oom
-- Finishes jobs: they are gone.
--
-- ARGV[A..] per job its id and its receipt or ''
-- Reply     per job a code and a topic ('' unless done)
local NOT_RESERVED, RECEIPT_REQUIRED = 6, 7
local saved = recall()
if saved then return saved end

local reply, changed = {}, false
for i = A, #ARGV, 2 do
  local id, receipt = ARGV[i], ARGV[i + 1]
  local job = open(call('HGET', POOL, id))
  local code, topic = OK, ''
  if not job then
    code = GONE
  elseif receipt == '' and job.strict then
    code = RECEIPT_REQUIRED
  elseif receipt == '' and job.state ~= RESERVED then
    code = NOT_RESERVED
  elseif receipt ~= '' and receipt ~= job.receipt then
    code = LOST
  else
    topic, changed = job.topic, true
    forget(id, job)
  end
  reply[#reply + 1], reply[#reply + 2] = code, topic
end
settle()
return changed and remember(reply) or reply
