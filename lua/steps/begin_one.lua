--[[ Begins the general way: gives some_kept, whether anybody is blocked or waits, and what steps/begin gives. Reads what steps/open_one gives. ]]
-- @include steps/begin
local some_kept = call('EXISTS', KEYS[1], KEYS[2]) > 0
