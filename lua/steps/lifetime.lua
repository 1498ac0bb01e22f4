--[[
  Gives `text`, the moment at which a key may go whose state matters for `reset` ms more. In steps of four seconds, so that keys share
  texts: making one costs more than the command. Reads what steps/open_lifetimes gives.
]]
local moment = server_now + reset + padding + 3999
moment = moment - moment % 4000
local text = texts[moment]
if not text then
  text = string.format('%.0f', moment)
  texts[moment] = text
end
