--[[
  Reads `value`, a row of four doubles, into at, x, y and expires, or sets `failure`: where there is none `key` may still hold something else, if
  `strange` says so. Uses call and read.

  expires is the moment of the server's clock at which the key may go. It stands below zero if a decision under this limit alone has to look whether somebody is
  blocked or waits: what blocks a key, or joins its line, makes it so, and only such a decision that finds nobody takes that back.
]]
if value then
  if #value == 32 then at, x, y, expires = read('<dddd', value) end
  -- Whole ms since the epoch and what is not below zero: hardly any other text of this length reads as that.
  if not at or at % 1 ~= 0 or at > 9007199254740992 or at < -9007199254740992 or not (x >= 0 and y >= 0) then
    failure = 'WRONGTYPE the key holds a value that is not a limit\'s'
  end
elseif strange then
  local kind = call('TYPE', key).ok
  if kind ~= 'none' then failure = 'WRONGTYPE the key holds a ' .. kind end
end
