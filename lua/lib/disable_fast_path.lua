--[[
  Disables the fast path (steps/decide_lone, steps/spend_lone_log) for the next decision of a key, so that it checks whether a key is blocked or a request
  waits. The fast path is permitted while the state holds the end of its lifetime; this makes that end negative (a row) or 0 (a log): see read_row
  and log_open.
]]
-- @include log_pack
-- @include log_unpack
local function disable_fast_path(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then
    local row = redis.call('GET', key)
    local expires = #row == 32 and struct.unpack('<d', row, 25) or 0
    if expires > 0 and expires % 4000 == 0 then redis.call('SETRANGE', key, '24', struct.pack('<d', -expires)) end
  elseif kind == 'list' then
    local first = redis.call('LINDEX', key, '0')
    if not log_formats[#first] then return end
    local expires, gone = log_unpack(first)
    if expires > 0 and expires % 4000 == 0 then redis.call('LSET', key, '0', log_pack(0, gone)) end
  end
end
