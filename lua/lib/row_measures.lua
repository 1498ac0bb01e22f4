--[[ What measures each algorithm whose state is a row; a sliding window is not here, it has a log. ]]
-- @include fixed_window
-- @include bucket
-- @include sliding_counter
local row_measures = {
  ['fixed-window'] = fixed_window,
  ['sliding-counter'] = sliding_counter,
  ['token-bucket'] = bucket,
  ['leaky-bucket'] = bucket,
}
