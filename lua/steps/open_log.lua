--[[
  Sets `log` to the log of `key`, as log_open describes it. It takes a fast path if no entry has expired. Reads now, window and spending; uses
  call, log_formats, algorithm and functions_of.
]]
local head = redis.pcall('LRANGE', key, '0', '2')
local second = head[2]
if second then
  local last = head[3] and call('LINDEX', key, '-1') or second
  local head_format, second_format, last_format = log_formats[#head[1]], log_formats[#second], log_formats[#last]
  if head_format and second_format and last_format then
    local _, gone = read(head_format, head[1])
    local oldest, oldest_total = read(second_format, second)
    local newest, total = read(last_format, last)
    if newest <= now and now - oldest < window then
      log = {
        gone = gone,
        oldest = oldest,
        oldest_total = oldest_total,
        newest = newest,
        total = total,
        stored = newest,
        window = false,
      }
    end
  end
elseif not head[1] and not head.err then
  -- A table that need not grow.
  log = {
    gone = 0,
    oldest = false,
    oldest_total = 0,
    newest = false,
    total = 0,
    stored = false,
    window = false,
  }
end
if not log then log = functions_of(algorithm).open_log(key, window, now, spending) end
logs[key] = log
