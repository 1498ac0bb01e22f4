--[[
  Returns what a refresh of the dashboard needs before it reads hashes: the server's time, whether the index of objects
  has changed, the secret by which keys are hidden, and the newest change. Creates the secret for the first viewer; it
  lives for 90 days after the last one.

  KEYS[1]  state of the index: see index_note
  KEYS[2]  the secret: STRING
  KEYS[3]  changes: see dashboard_note_change
  ARGV[1]  a new secret, if there is none

  Returns the time in ms; the version of the index, 0 if there is none; the secret; the newest change, '' if there is
  none.
]]
local timely = require 'redis.timely'

local LIFE, RENEW = 7776000000, 7689600000
local secret = redis.call('GET', KEYS[2])
if not secret then
  secret = ARGV[1]
  redis.call('SET', KEYS[2], secret, 'PX', LIFE)
elseif redis.call('PTTL', KEYS[2]) < RENEW then
  redis.call('PEXPIRE', KEYS[2], LIFE)
end
local newest = redis.pcall('LINDEX', KEYS[3], 0)
return {
  timely.now_ms(''),
  tonumber(redis.call('HGET', KEYS[1], 'version') or 0),
  secret,
  type(newest) == 'string' and newest or '',
}
