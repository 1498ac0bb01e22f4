-- Values under our keys that are not ours.
local foreign = {}

-- What a protected read has answered: a value of another type counts as unused. Whatever else it has failed for, like a
-- right that the user lacks, must not count so: nothing would be limited.
function foreign.check(reply)
  if reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true) then error(reply.err, 0) end
end

return foreign
