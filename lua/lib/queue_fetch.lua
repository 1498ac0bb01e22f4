--[[
  The record of the last fetch of one process, kept for a minute: its number and its messages, for each receipt, due moment and visibility in ms. A
  fetch is repeated if the client lost its connection or gave up waiting; it then gets the same messages.
]]
local queue_fetch = {}
function queue_fetch.number(kept)
  return kept and struct.unpack('>I7', kept) or 0
end
function queue_fetch.taken(kept)
  return cmsgpack.unpack(string.sub(kept, 8))
end
function queue_fetch.keep(key, number, taken)
  redis.call('SET', key, struct.pack('>I7', number) .. cmsgpack.pack(taken), 'PX', '60000')
end
