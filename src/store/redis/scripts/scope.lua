-- Prelude of the scripts that take a caller's scope. It is '' for every topic, otherwise patterns, each followed by a
-- blank: whole names, and prefixes of names followed by '*'.
local verdicts, heads = nil, {}

-- The record `raw` if its job is of a topic in `scope`, otherwise false, as for no job. Only the topic is read.
local function in_scope(scope, raw)
  if not raw or scope == '' then return raw end
  if #raw <= HEAD then return false end
  local topic = topic_of(sub(raw, HEAD + 1, HEAD + byte(raw, OUTLET_AT)))
  -- A batch has many jobs of few topics.
  verdicts = verdicts or {}
  local known = verdicts[scope] or {}
  verdicts[scope] = known
  if known[topic] == nil then
    known[topic] = false
    for pattern in string.gmatch(scope, '%S+') do
      local prefix = byte(pattern, -1) == 42 and sub(pattern, 1, -2)
      if pattern == topic or (prefix and sub(topic, 1, #prefix) == prefix) then known[topic] = true end
    end
  end
  return known[topic] and raw
end

-- The record of job `id` as `in_scope` returns it, with only one byte of a large body. A large record is read once in a call:
-- a job named a thousand times must cost no more than once. A script that removes a job clears its entry in `heads`, or does
-- not ask for the job again.
local HEAD_LIMIT = 2048
local function head_in_scope(jobs, scope, id)
  local head = heads[id] or call('HGET', jobs, id)
  if head and #head > HEAD_LIMIT then
    local outlet_length, high, low = byte(head, OUTLET_AT, HEAD)
    head = sub(head, 1, HEAD + outlet_length + high * 256 + low + 1)
    heads[id] = head
  end
  if scope == '' then return head end
  return in_scope(scope, head)
end
