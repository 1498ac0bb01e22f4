--[[ Returns a function from the ms until a key is as if never used to the text of the moment at which it may expire. ]]
-- @include now_ms
local function expiry(clock, now)
  -- @include steps/open_lifetimes
  return function(reset)
    -- @include steps/lifetime
    return text
  end
end
