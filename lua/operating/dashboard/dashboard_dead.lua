--[[
  Counts the dead letters of delay queues, for the dashboard. Changes nothing.

  KEYS  their dead letters: see queues.keys
  ARGV  none

  Returns a number for each.
]]
local reply = {}
for i, dead in ipairs(KEYS) do
  reply[i] = redis.call('ZCARD', dead)
end
return reply
