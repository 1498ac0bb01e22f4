--[[
  Passes on to another sleeper what a process has been woken for, or has seen to be due, and cannot take.

  KEYS[1..9]  the queue: see queue_keys
  ARGV        none

  Returns nothing
]]
-- @include queue_keys
-- @include queue_wake_one
queue_wake_one(queue_keys())
