--[[
  What a script needs of a record: sequence number (20 digits), priority (1), end of the ttl in ms or 0 (15), attempts at most (7).
  After these comes what only the process reads.
]]
local function queue_record(record)
  return {
    seq = string.sub(record, 1, 20),
    priority = tonumber(string.sub(record, 21, 21)),
    ttl = tonumber(string.sub(record, 22, 36)),
    max = tonumber(string.sub(record, 37, 43)),
  }
end
