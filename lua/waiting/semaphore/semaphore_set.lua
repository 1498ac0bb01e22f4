--[[
  Sets the number of permits of a semaphore. Notifies the waiters.

  KEYS[1..7], ARGV[1..6]  see semaphores.change; ARGV[4] counts only for 'add'
  ARGV[7]     'try': set them if none are set; 'set': set them; 'add': add this number, which may be negative
  ARGV[8]     permits

  Returns { 1, permits } if they were set, { 0, permits } if not, { -2 } without a semaphore to add to.
]]
local semaphores = require 'waiting.semaphore.semaphores'

local verb = ARGV[7]
local permits = tonumber(ARGV[8])

return semaphores.change(verb ~= 'add' and ARGV[8] or nil, nil, function(s)
  local before = s.permits
  if verb == 'set' then s.permits = permits end
  if verb == 'add' then s.permits = math.max(0, before + permits) end
  local done = verb ~= 'try' or s.is_new
  s.is_set, s.is_changed = s.is_set or done, done
  return { done and 1 or 0, s.permits }, done, s.permits ~= before
end)
