--[[
  Gives `outlives`: whether the key, as it is, lives for as long as what is written now matters, so that its lifetime need not be set. It was set
  for a state that mattered until `ends`: see steps/lifetime. `ends` is 0 where that is not known, as by a clock that was given.
  Reads now, reset and ends.
]]
local outlives = ends + 4999 - (ends + 4999) % 4000 >= now + reset + 1000
