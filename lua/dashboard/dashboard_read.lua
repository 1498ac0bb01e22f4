--[[
  Returns the server's time, and whether the index of objects has changed: a refresh of the dashboard calls it before it reads hashes.

  KEYS[1]  state of the index: see index_note
  ARGV     none

  Returns the time in ms, and the version of the index; 0 if there is none.
]]
-- @include now_ms
return { now_ms(''), tonumber(redis.call('HGET', KEYS[1], 'version') or 0) }
