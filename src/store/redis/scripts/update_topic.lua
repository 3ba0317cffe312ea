#!lua
-- Replaces what is set for a topic. Refused when memory is full.
return update()
