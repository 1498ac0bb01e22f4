--[[
  Reads a semaphore and takes away what is over: leases whose deadline has passed, and offers that nobody took, which go back to their
  place in the line. `keys` are, in this order:

    config   HASH permits, used (by leases and offers), last (the newest number given), idle (lifetime in ms where nothing is held),
             calm and life: until when, in ms, nothing needs to be looked at, and the other keys live
    leases   ZSET id → deadline in ms
    facts    HASH id → "permits party number": of a lease the fencing token, of a waiter its place in the line
    line     ZSET id → place in the line
    offers   ZSET id → deadline in ms: permits put by for a waiter who has been told, until it takes them
    parties  ZSET of those who wait → until when they are believed to live, in ms. A party is "process/number".

  `initial` is set as permits where none are; -1: then there is no semaphore, and the result is nil; below that: −2 − permits, which hold
  whatever was set. `idle` below 0: as stored.
  The result keeps in `used` what is out; nothing of it is written before semaphore_save. `crowded` is true if
  somebody is in the line or has an offer, `left` if somebody may have left it.
]]
-- @include semaphore_read
-- @include semaphore_sweep
local function semaphore_open(keys, clock, initial, idle)
  local s = semaphore_read(keys, clock, initial, idle)
  return s and semaphore_sweep(s)
end
