--[[ Begins the general code: gives some_kept (true if a key is blocked or a request waits) and what steps/begin gives. Reads what steps/open_one gives. ]]
-- @include steps/begin
local some_kept = call('EXISTS', KEYS[1], KEYS[2]) > 0
