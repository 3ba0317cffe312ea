#!lua flags=allow-oom
-- Pauses and resumes parts of a topic in one step, and notifies every process. Also works when memory is full: it needs
-- a few bytes, and operators pause topics when something is wrong.
--
-- ARGV[5..] what to pause and what to resume (letters: d for delivery, i for intake)
-- Reply     { the version of all settings, the letters of the paused parts }
local TAGS = { d = 5, i = 6 }
local function has(letters, letter) return string.find(letters, letter, 1, true) end
local paused, is_changed = '', false
for _, letter in ipairs({ 'd', 'i' }) do
  local tag = TAGS[letter]
  local was = VALUES[tag]
  local now = (was or has(ARGV[5], letter)) and not has(ARGV[6], letter)
  if now then paused = paused .. letter end
  if not now then
    VALUES[tag] = nil
  elseif not was then
    VALUES[tag] = pack('>BI2', tag, 0)
  end
  is_changed = is_changed or VALUES[tag] ~= was
end
return { is_changed and store_values() or version, paused }
