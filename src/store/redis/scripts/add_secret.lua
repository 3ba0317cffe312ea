#!lua
-- Adds a secret to a topic, unless it has this key already or two others, and notifies every process.
--
-- ARGV[5] the id of the secret (8 bytes), ARGV[6] its key
-- Reply   { the version of all settings, 1 if it was added or 0, the secrets (`SigningSecret::encode_all`) }
local SECRETS, MOST = 10, 2
local secrets = sub(VALUES[SECRETS] or '', 4)
local at, count = 1, 0
while at <= #secrets do
  local size = byte(secrets, at + 14)
  if sub(secrets, at + 15, at + 14 + size) == ARGV[6] then
    -- With this id it is a second run of the same call, whose first reply was lost.
    return { version, sub(secrets, at, at + 7) == ARGV[5] and 1 or 0, secrets }
  end
  at, count = at + 15 + size, count + 1
end
if count >= MOST then return { version, 0, secrets } end
local added = ARGV[5] .. pack('>I6B', math.floor(server / 1000), #ARGV[6]) .. ARGV[6]
secrets = secrets .. added
VALUES[SECRETS] = pack('>BI2', SECRETS, #secrets) .. secrets
return { store_values(), 1, secrets }
