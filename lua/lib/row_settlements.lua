--[[ What settles each algorithm whose state is a row; a sliding window is not here, it has a log. ]]
-- @include settle_fixed_window
-- @include settle_sliding_counter
-- @include settle_token_bucket
-- @include settle_leaky_bucket
local row_settlements = {
  ['fixed-window'] = settle_fixed_window,
  ['sliding-counter'] = settle_sliding_counter,
  ['token-bucket'] = settle_token_bucket,
  ['leaky-bucket'] = settle_leaky_bucket,
}
