--[[ Returns a function that gives, for the ms until a key is as if never used, the text of the moment at which it may go. ]]
-- @include now_ms
local function expiry(clock, now)
  -- @include steps/open_lifetimes
  return function(reset)
    -- @include steps/lifetime
    return text
  end
end
