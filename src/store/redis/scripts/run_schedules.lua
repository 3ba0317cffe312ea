#!lua
-- Changes schedules with the jobs of their runs, or makes schedules (`schedules.lua`). When memory is full the whole call is
-- refused, before anything is written.
return change_schedules()
