--[[
  Reads `value`, a row of five doubles, into at, x and y, and what is remembered of the lifetime of its key: expires, a moment, as it was in the second
  `asked_in` (see steps/spend_row; 0: nothing). Sets `failure` if the key holds something else; without a value it checks the
  type of `key` only if `strange` is true. Uses call and read.
]]
if value then
  if #value == 40 then at, x, y, expires, asked_in = read('<ddddd', value) end
  -- Whole ms since the epoch and two numbers ≥ 0: almost no other text of this length reads like that.
  if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
    failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
  end
elseif strange then
  local kind = call('TYPE', key).ok
  if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
