--[[
  Sets a rate. Notifies the waiters, to whom it applies from now on.

  KEYS[1..10]  see rates.open
  KEYS[11..]   log and line of each further client that is known to have state, four keys each
  KEYS[last], ARGV[1..2]  see timely.run_once
  ARGV[3]      now, ms; '' for the server's clock
  ARGV[4]      when: 'absent', 'present' or 'always'
  ARGV[5]      1 to keep what was granted, 0 to forget it
  ARGV[6]      rate
  ARGV[7]      interval, ms
  ARGV[8]      mode: 'overall' or 'per-client'
  ARGV[9]      how long the limiter lives unused, ms; -1 for ever
  ARGV[10]     what the channel of every process begins with
  ARGV[11..]   the clients whose keys are given: this one, then the further ones in their order

  Returns 1, or 0 if it was not set because of `when`. Or the clients whose keys were not given, and nothing was done.
]]
local timely = require 'redis.timely'
local rates = require 'waiting.rate.rates'
local lines = require 'waiting.line.lines'

local clock = ARGV[3]
local when = ARGV[4]
local keep = ARGV[5] == '1'
local rate_given, interval_given, mode_given, keep_alive_given = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local channel = ARGV[10]
local now = timely.now_ms(clock)

return timely.run_once(function()
  local before = rates.open(clock, now)
  if (when == 'absent' and before) or (when == 'present' and not before) then return { 0 } end
  local groups, missing = rates.groups(11)
  if not groups then return missing end
  local keeps = keep and before and before.per_client == (mode_given == 'per-client')
  local known_since = string.format('%.0f', keeps and before.known_since or now)
  redis.call('DEL', KEYS[1])
  redis.call(
    'HSET', KEYS[1], 'rate', rate_given, 'interval', interval_given, 'mode', mode_given, 'knownSince', known_since
  )
  if keep_alive_given ~= '-1' then redis.call('HSET', KEYS[1], 'keepAlive', keep_alive_given) end
  if before and before.ends_at then
    redis.call('HSET', KEYS[1], 'endsAt', string.format('%.0f', before.ends_at))
    redis.call('PEXPIREAT', KEYS[1], before.expires_at(before.ends_at - now))
  end
  local rate = rates.open(clock, now)
  local latest = 0
  for _, group in ipairs(groups) do
    local kind = redis.call('TYPE', group.log).ok
    if not (keep and before) or (kind ~= 'list' and kind ~= 'none') then redis.call('DEL', group.log) end
    rate.log, rate.group = group.log, group
    local reset = 0
    local line = rates.line(group, channel)
    if line or redis.call('EXISTS', group.log) > 0 then
      local capacity = rates.capacity(rate, now)
      if capacity.err then
        redis.call('DEL', group.log)
        capacity = rates.capacity(rate, now)
      end
      reset = capacity.reset()
      if reset > 0 then redis.call('PEXPIREAT', group.log, rate.expires_at(reset)) end
      if line then
        lines.notify_all(line)
        -- Separate counts become one, or one becomes several: every waiter must join another line. Without a rate
        -- nobody waits.
        if not before or before.per_client ~= rate.per_client then line.units = 0 end
        if line.units > 0 then lines.walk(line, nil, capacity, { next = 0 }) end
        lines.save(line)
        if line.units > 0 then reset = math.max(reset, 60000) end
      end
      if rate.per_client and group.client and reset > 0 then rate.register(group.client, reset) end
    end
    latest = math.max(latest, reset)
  end
  redis.call('PEXPIREAT', KEYS[2], rate.expires_at(math.max(latest, rate.limit.window)))
  rate.use(latest)
  return { 1 }, true
end)
