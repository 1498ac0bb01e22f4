--[[
  Whether a delay queue is paused. Changes nothing.

  KEYS[1]  delayed: see queues.keys
  ARGV     none

  Returns 1 or 0.
]]
return redis.call('ZSCORE', KEYS[1], 'paused') and 1 or 0
