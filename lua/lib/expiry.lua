--[[
  Returns a function that gives, for the ms until a key is as if never used, the text of the moment at which it may go: a little
  later, because no decision may depend on expiry. A given clock may stand still while the server's does not, hence the longer
  padding. Rounded up to half seconds, so that most keys of a call share one text: making it costs more than the command.
]]
local function expiry(clock, now)
  local server_now = now
  local padding = 1000
  if clock ~= '' then
    local time = redis.call('TIME')
    server_now = time[1] * 1000 + math.floor(time[2] / 1000)
    padding = 5000
  end
  local texts = {}
  return function(reset)
    local moment = math.ceil((server_now + reset + padding) / 512) * 512
    local text = texts[moment]
    if not text then
      text = string.format('%.0f', moment)
      texts[moment] = text
    end
    return text
  end
end
