--[[
  Reads the limits in ARGV from `first` on, four numbers or names each. Returns the list and the index after it. For a calendar window
  (algorithm calendar-window), burst is the start of the window.
]]
local function read_limits(first, count, now)
  local limits = {}
  for i = 1, count do
    local algorithm, window, burst = ARGV[first], tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
    if algorithm == 'calendar-window' then
      -- @include steps/check_calendar_window
    end
    limits[i] = { algorithm = algorithm, quota = tonumber(ARGV[first + 1]), window = window, burst = burst }
    first = first + 4
  end
  return limits, first
end
