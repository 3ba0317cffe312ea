-- Prelude of the scripts that get all keys of a shard.
--
-- KEYS  1 jobs  2 counts  3 replay slots  4 broken  5 timeline, then the indexes (`keys.rs`), then per outlet its ready
--       list and the dead set of its topic
local JOBS, COUNTS, REPLAY_SLOTS, BROKEN, TIMELINE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- written: the keys of the indexes
local outlets = {} -- the keys of each outlet, by its name
