--[[
  Reads `value`, a row of four doubles, into at, x, y and expires. Sets `failure` if the key holds something else; without a value it checks the
  type of `key` only if `strange` is true. Uses call and read.

  expires is the moment, by the server's clock, at which the key expires. It is negative if a decision must check whether the key is blocked or a request
  waits. block and the first waiter of a line make it negative (disable_fast_path); a decision that finds neither makes it positive again.
]]
if value then
  if #value == 32 then at, x, y, expires = read('<dddd', value) end
  -- Whole ms since the epoch and two numbers ≥ 0: almost no other text of this length reads like that.
  if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
    failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
  end
elseif strange then
  local kind = call('TYPE', key).ok
  if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
