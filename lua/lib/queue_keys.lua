--[[
  The keys of a delay queue, in the order in which every script receives them. A message is in `messages` and in one of
  `delayed` and `unacked`; as a dead letter it is in `dead` and `graves` instead.

  delayed   ZSET member → score of priority and due moment (queue_score); a member -1 says that the queue is paused
  unacked   ZSET member → end of its visibility, ms
  messages  HASH id → record (queue_record)
  tries     HASH id → how often it was taken, and its attempts, 7 digits each; only for messages that wait to be taken again
  ttls      ZSET id → end of its ttl, ms; only for messages that have one
  dead      ZSET id → moment of its death, ms
  graves    HASH id → packed: attempts, reason, record
  wake      ZSET that idle processes block on: the one that pops 'first' asks at once, the one that pops 'second' a little later
  called    STRING: processes were woken, and none has asked since
  cleared   STRING: the queue was cleared while deliveries were open
  clock     STRING: see queue_clock. All moments above are by this clock

  A member is the sequence number of the message (20 digits, which grow from push to push), how often it was taken, its attempts so far (7 digits
  each), and its id. So members of equal score are in order of push, and no two deliveries ever share one, even if the first was put back uncounted:
  in `unacked`, it is the receipt.
]]
local function queue_keys()
  return {
    delayed = KEYS[1],
    unacked = KEYS[2],
    messages = KEYS[3],
    tries = KEYS[4],
    ttls = KEYS[5],
    dead = KEYS[6],
    graves = KEYS[7],
    wake = KEYS[8],
    called = KEYS[9],
    cleared = KEYS[10],
    clock = KEYS[11],
  }
end

local QUEUE_UNTRIED = '00000000000000'
local function queue_member(seq, takings, attempts, id)
  return string.format('%s%07d%07d', seq, takings % 10000000, attempts) .. id
end
--[[ Returns the sequence number, how often it was taken, its attempts, and its id. ]]
local function queue_parts(member)
  return string.sub(member, 1, 20),
    tonumber(string.sub(member, 21, 27)),
    tonumber(string.sub(member, 28, 34)),
    string.sub(member, 35)
end
