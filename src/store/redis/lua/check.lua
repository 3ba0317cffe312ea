#!lua
-- Writes nothing, but the server refuses to start it when it could not write: a replica, a full
-- memory, a disk error, too few replicas.
--
-- KEYS  counts
return 1
