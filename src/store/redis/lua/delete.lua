#!lua flags=allow-oom
-- Deletes jobs: in any state; only while they are dead; or only if they are of the topics in KEYS.
--
-- ARGV[A..] '' or 'dead' or 'only', the ids
-- Reply     { 1 when a list should be compacted, per job a code and a topic ('' when gone) }
if REPLAY then return REPLAY end
local reply, touched = { 0 }, {}
for i = A + 1, #ARGV do
  local id = ARGV[i]
  local raw = call('HGET', POOL, id)
  local job = open(raw)
  local code, topic = OK, ''
  if raw and not job then set_aside(id, raw) end
  if not job or (ARGV[A] == 'dead' and job.state ~= DEAD) or (ARGV[A] == 'only' and not topics[job.topic]) then
    code = GONE
  elseif not indexed(job.state) and not topics[job.topic] then
    code, topic = MOVED, job.topic
  else
    topic = job.topic
    if job.state == READY then touched[topic] = true end
    forget(id, job)
  end
  reply[#reply + 1], reply[#reply + 2] = code, topic
end
settle()
for topic in pairs(touched) do
  if crowded(topic) then reply[1] = 1 end
end
return remember(reply)
