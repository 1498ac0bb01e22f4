--[[
  The pause that a partner has asked for, shared by all processes.

  KEYS[1]  the pause: text `1 begun ends resumed`: its version, then moments in ms; 0: none
  ARGV[1]  what to do:
             look    only reads
             begin   begins a pause. Of two pauses the one that ends later stays. A pause that began before the last
                     resume stays ended
             resume  ends the pause
  ARGV[2]  begin: the length of the pause, ms
  ARGV[3]  begin: how long ago it began, ms
  ARGV[4]  the longest pause, ms. A resume is remembered for this time
  ARGV[5]  the last moment at which the script may act, ms

  Returns now, and nothing else, if it was too late; else now, the remaining ms of the pause, and when the last resume
  was, 0: unknown.
]]
local timely = require 'redis.timely'

local key = KEYS[1]
local verb = ARGV[1]
local length, age, longest = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = timely.now_ms('')
if timely.is_late(now) then return { now } end
local words = { string.match(redis.call('GET', key) or '', '^1 (%d+) (%d+) (%d+)$') }
local begun, ends, resumed = tonumber(words[1] or 0), tonumber(words[2] or 0), tonumber(words[3] or 0)
local changed = begun > now or resumed > now
-- The clock was set back: no pause becomes longer by that.
if begun > now then
  begun, ends = now, ends - begun + now
end
resumed = math.min(resumed, now)
if verb == 'begin' then
  local at = now - age
  if at >= resumed and at + length > ends then
    begun, ends, changed = at, at + length, true
  end
elseif verb == 'resume' then
  begun, ends, resumed, changed = 0, 0, now, true
end
if changed then
  local life = math.max(ends - now, resumed > 0 and resumed + longest - now or 0)
  if life > 0 then
    redis.call('SET', key, string.format('1 %.0f %.0f %.0f', begun, ends, resumed), 'PX', string.format('%.0f', life))
  else
    redis.call('DEL', key)
  end
end
return { now, math.max(0, math.min(ends, begun + longest) - now), resumed }
