-- Prelude of the scripts that take a caller's topics. A scope is '' for every topic; else patterns, each with a blank
-- behind it: whole names, and beginnings of names with a '*'.
local verdicts, heads = {}, {}

local function allows(scope, topic)
  local known = verdicts[scope]
  if not known then
    known = {}
    verdicts[scope] = known
  end
  if known[topic] == nil then
    known[topic] = false
    for pattern in string.gmatch(scope, '%S+') do
      local prefix = byte(pattern, -1) == 42 and sub(pattern, 1, -2)
      if pattern == topic or (prefix and sub(topic, 1, #prefix) == prefix) then
        known[topic] = true
        break
      end
    end
  end
  return known[topic]
end

-- The record `raw` if its job is of a topic in `scope`; false when not, as when there is no job. Only the topic is read.
local function within(scope, raw)
  if not raw or scope == '' then return raw end
  local topic = #raw > TOPIC_AT and sub(raw, TOPIC_AT + 1, TOPIC_AT + byte(raw, TOPIC_AT))
  return topic and allows(scope, topic) and raw
end

-- The record of job `id` as `within` gives it, without most of its body. What one call names again is not read again:
-- a large job named a thousand times must cost no more than once.
local HEAD_LIMIT = 2048
local function head_of(pool, scope, id)
  local head = heads[id]
  if head == nil then
    head = call('HGET', pool, id)
    if head and #head > HEAD_LIMIT then head = sub(head, 1, HEAD_LIMIT) end
    heads[id] = head
  end
  return within(scope, head)
end
