--[[
  Lists the changes made by the dashboard, newest first. Changes nothing.

  KEYS[1]  changes: see dashboard_note_change
  ARGV     none

  Returns the list.
]]
return redis.call('LRANGE', KEYS[1], 0, -1)
