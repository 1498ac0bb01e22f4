--[[
  Lists blocked keys. Changes nothing.

  KEYS       block lists: see block
  ARGV[1]    now, ms; '' for the server's clock
  ARGV[2]    how many of each list to return, those whose blocks end last first
  ARGV[3..]  only these members, one of each list; none for all

  Returns for each list: how many are blocked, then members with the end of each block, ms
]]
local timely = require 'redis.timely'
local limits = require 'limiter.limits'

local after = '(' .. timely.now_ms(ARGV[1])
local most = ARGV[2]
local reply = {}
for i, list in ipairs(KEYS) do
  local member = ARGV[2 + i]
  if member then
    local ends_at = limits.block_end(list, member)
    reply[i] = ends_at > tonumber(string.sub(after, 2)) and { 1, member, ends_at } or { 0 }
  else
    local row = redis.call('ZRANGE', list, '+inf', after, 'BYSCORE', 'REV', 'LIMIT', '0', most, 'WITHSCORES')
    table.insert(row, 1, redis.call('ZCOUNT', list, after, '+inf'))
    reply[i] = row
  end
end
return reply
