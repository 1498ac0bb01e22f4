--[[ Returns a function: given the ms until the state of a key no longer matters, it returns the moment at which the key may expire, as text. ]]
-- @include now_ms
local function expiry(clock, now)
  -- @include steps/open_lifetimes
  return function(reset)
    -- @include steps/lifetime
    return text
  end
end
