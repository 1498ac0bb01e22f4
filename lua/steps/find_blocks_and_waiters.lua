--[[ Begins the general code: sets some_kept (true if a key is blocked or a request waits) and what steps/read_clock_or_stop sets. Reads what steps/open_one sets. ]]
-- @include steps/read_clock_or_stop
local some_kept = call('EXISTS', KEYS[1], KEYS[2]) > 0
