--[[
  Returns a function: given the ms until the state of a key no longer matters, and optionally the key's present lifetime in ms, it returns the moment at which
  the key may expire, or false if its lifetime suffices.
]]
-- @include now_ms
local function expiry(clock, now)
  -- @include steps/open_lifetimes
  return function(reset, left)
    -- @include steps/lifetime
    return expire_at
  end
end
