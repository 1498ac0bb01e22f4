--[[ What decisions behind a waiting line need, as a function that is made only when it is wanted: see rarely. ]]
local rare_ahead
local function rarely_ahead()
  if not rare_ahead then
    -- @include row_ahead
    rare_ahead = row_ahead
  end
  return rare_ahead
end
