#!lua flags=allow-oom
-- Deletes a secret of a topic, and notifies every process. Also works when memory is full: a secret that has become known
-- must go at once.
--
-- ARGV[5] the id of the secret (8 bytes)
-- Reply   { the version of all settings, 1 if it was deleted or 0, the secrets that are left }
local SECRETS = 10
local secrets = sub(VALUES[SECRETS] or '', 4)
local at, kept = 1, ''
while at <= #secrets do
  local size = byte(secrets, at + 14)
  if sub(secrets, at, at + 7) ~= ARGV[5] then kept = kept .. sub(secrets, at, at + 14 + size) end
  at = at + 15 + size
end
if kept == secrets then return { version, 0, secrets } end
VALUES[SECRETS] = kept ~= '' and pack('>BI2', SECRETS, #kept) .. kept or nil
return { store_values(), 1, kept }
