--[[
  The keys of a delay queue, in the order in which every script receives them. A message is in `messages` and in one of
  `delayed` and `unacked`; as a dead letter it is in `dead` and `graves` instead.

  delayed   ZSET member → score of priority and due moment (queue_score); a member -1 says that the queue is paused
  unacked   ZSET member → end of its visibility, ms
  messages  HASH id → record (queue_record)
  tries     HASH id → deliveries so far, 7 digits; only for messages that wait to be delivered again
  ttls      ZSET id → end of its ttl, ms; only for messages that have one
  dead      ZSET id → moment of its death, ms
  graves    HASH id → packed: deliveries, reason, record
  wake      ZSET that idle processes block on: the one that pops 'first' asks at once, the one that pops 'second' a little later
  called    STRING: processes were woken, and none has asked since
  cleared   STRING: the queue was cleared while deliveries were open

  A member is the sequence number of the message (20 digits, which grow from push to push), its deliveries so far (7 digits), its
  id. So members of equal score are in order of push, and no two deliveries ever share one: in `unacked`, it is the receipt.
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
  }
end
