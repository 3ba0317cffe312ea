#!lua flags=allow-oom
-- Changes schedules without jobs, also when memory is full: operators pause and delete them when something is wrong.
return change_schedules()
