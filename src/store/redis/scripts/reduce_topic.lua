#!lua flags=allow-oom
-- Replaces what is set for a topic by something that needs no room, also when memory is full: a secret that has become known
-- must go at once, and operators pause topics when something is wrong.
return update()
