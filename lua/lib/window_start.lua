--[[ The start of the fixed window that runs now, or nil. A start in the future is moved to now. ]]
local function window_start(window, now, at)
  if not at then return nil end
  if at > now then return now end
  if at - now + window <= 0 then return nil end
  return at
end
