--[[
  What a script for one limit reads before it decides.

  KEYS     the block list of the limit (ZSET member → blocked until, ms); then the key of each request
  ARGV[1]  now, ms; '' for the server's clock
  ARGV[2]  until when this may be carried out, ms; '' for whenever it comes
  ARGV[3]  1 to spend, 0 only to look
  ARGV[4]  the limit: quota, window in ms, burst
  ARGV[7…] the cost of each request, one for all, or none where all cost 1

  Gives call, now, spending, quota, window, burst, one_cost, some_blocked; server_now, padding and texts for steps/lifetime; and out
  with its size for steps/tell. Uses now_ms.
]]
local call = redis.call
local clock = ARGV[1]
local now = now_ms(clock)
local valid_until = tonumber(ARGV[2])
if valid_until and now > valid_until then return { now } end
local spending = ARGV[3] == '1'
local quota, window, burst = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local one_cost = #ARGV < 8 and tonumber(ARGV[7] or 1)
local some_blocked = call('EXISTS', KEYS[1]) > 0

-- A key may go a little after its state is as if never used: no decision depends on expiry. A given clock may stand still while the
-- server's does not. In steps of four seconds, so that keys share texts: making one costs more than the command.
local server_now, padding = now, 1000
if clock ~= '' then server_now, padding = now_ms(''), 5000 end
local texts = {}

local out, size = { now }, 1
