// One rule of the real code left out or bent, each: what the simulation must find.

export interface Mutant {
  /** What is wrong with it. */
  readonly name: string
  readonly file: string
  /** A text that is in the file once, and what stands there instead. */
  readonly text: string
  readonly instead: string
  /** What the schedules use; default: everything. */
  readonly uses?: string
  /** The rule that must find it; default: any. */
  readonly rule?: string
}

/** What waits in a line. */
const LINES = 'semaphore,rate,turns'
const BACK = 'not all is back'

const TOKENS = 'lua/limiter/algorithms/token_bucket.lua'
const FIXED = 'lua/limiter/algorithms/fixed_window.lua'
const COUNTER = 'lua/limiter/algorithms/sliding_counter.lua'
const LOG = 'lua/limiter/algorithms/sliding_window.lua'
const SEMAPHORE = 'lua/waiting/semaphore/semaphores.lua'
const FETCH = 'lua/waiting/queue/queue_settle_and_fetch.lua'

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a bucket lends one unit',
    file: TOKENS,
    text: 'elseif cost > 0 and over > 0 then',
    instead: 'elseif cost > 0 and over > window then',
  },
  {
    name: 'retryAfterMs of a bucket is rounded down',
    file: TOKENS,
    text: 'if retry * quota < over then retry = retry + 1 end',
    instead: '',
  },
  {
    name: 'a fixed window grants one more',
    file: FIXED,
    text: 'spent + cost > quota then',
    instead: 'spent + cost > quota + 1 then',
  },
  {
    name: 'a fixed window ends a tenth early',
    file: FIXED,
    text: 'earliest = starts_at or now - window + 1',
    instead: 'earliest = starts_at or now - window * 0.9 + 1',
  },
  {
    name: 'a fixed window says half of the wait',
    file: FIXED,
    text: 'retry = (starts_at or at) - now + window\n',
    instead: 'retry = math.ceil(((starts_at or at) - now + window) / 2)\n',
  },
  {
    name: 'a sliding counter forgets the cell before when a new one begins',
    file: COUNTER,
    text: 'before = spent\n',
    instead: '\n',
  },
  {
    name: 'a sliding counter weighs the cell before one unit too low',
    file: COUNTER,
    text: 'elseif cost > 0 and before * overlap > room * window then',
    instead: 'elseif cost > 0 and before * overlap > (room + 1) * window then',
  },
  {
    name: 'entries of a log expire a tenth early',
    file: 'lua/limiter/logs.lua',
    text: 'local passes = function(at) return now - at < window end',
    instead: 'local passes = function(at) return now - at < window * 0.9 end',
  },
  {
    name: 'a log says when its oldest entry expires, whatever the cost',
    file: LOG,
    text: 'if log.oldest_total < enough then',
    instead: 'if false then',
  },
  {
    name: 'of several limits, the last one decides',
    file: 'lua/limiter/consume.lua',
    text: 'if limit.retry ~= 0 or limit.wait > 0 or limit.blocked_for > 0 then is_allowed = false end',
    instead: 'is_allowed = limit.retry == 0 and limit.wait == 0 and limit.blocked_for == 0',
  },
  {
    name: 'a decision is carried out however late it comes',
    file: 'lua/limiter/consume_log.lua',
    text: 'if until_ms and now > until_ms then return { now } end',
    instead: '',
  },
  {
    name: 'a block lasts half as long',
    file: 'lua/limiter/change.lua',
    text: "redis.call('ZADD', blocked, now + block_for, keys[i])",
    instead: "redis.call('ZADD', blocked, now + block_for / 2, keys[i])",
  },
  {
    name: 'a line is served from its end',
    file: 'lua/waiting/line/asks.lua',
    text: "joins[#joins + 1] = string.format('%.0f', ticket)",
    instead: "joins[#joins + 1] = string.format('%.0f', -ticket)",
  },
  {
    name: 'a semaphore has a permit more for those who wait',
    file: SEMAPHORE,
    text: 'if cost <= s.permits - s.used - ahead then return 0 end',
    instead: 'if cost <= s.permits - s.used - ahead + 1 then return 0 end',
  },
  {
    name: 'a semaphore has a permit more for those who take while nobody waits',
    file: 'lua/waiting/semaphore/semaphore_take.lua',
    text: "'100000000000000') + 4e15 < room + 0",
    instead: "'100000000000000') + 4e15 < room + 1",
  },
  {
    name: 'a lease that ends leaves the count of its permits beyond one',
    file: SEMAPHORE,
    text: 's.extra = s.extra - permits + 1',
    instead: 's.extra = s.extra + 0',
    uses: LINES,
  },
  {
    name: 'permits are given back by a ZREM although somebody waits',
    file: SEMAPHORE,
    text: 'local right = waits and s.held or s.open',
    instead: 'local right = s.open',
    uses: LINES,
  },
  {
    name: 'tokens follow the clock back',
    file: SEMAPHORE,
    text: 's.last = math.max(s.last + 1, s.micros)',
    instead: 's.last = s.micros',
  },
  {
    name: 'messages are taken back while they are handled',
    file: FETCH,
    text: 'places[#places + 1] = now + length',
    instead: 'places[#places + 1] = now + length * 0.01',
  },
  {
    name: 'a message that is taken is written down nowhere',
    file: FETCH,
    text: "redis.call('ZADD', keys.unacked, unpack(places))",
    instead: '',
  },
  {
    name: 'messages are due a tenth early',
    file: 'lua/waiting/queue/queue_push.lua',
    text: 'local due = delay >= 0 and now + delay or',
    instead: 'local due = delay >= 0 and now + delay * 0.9 or',
  },
  {
    name: 'messages wait longer when the clock is set back',
    file: 'lua/waiting/queue/queues.lua',
    text: 'ahead_ms = math.max(ahead_ms, last - server)',
    instead: '',
  },
  {
    name: 'a shared rate does not count what it grants',
    file: 'lua/waiting/rate/rates.lua',
    text: 'state.charge(cost)',
    instead: '',
  },
  {
    name: 'an answer that comes too late counts',
    file: 'src/limiter/core/clock.ts',
    text: 'const endsAt = Math.max(until, now + this.ms)',
    instead: 'const endsAt = Math.max(until, now + this.ms) + 30',
  },
  {
    name: 'the clock of a server is learnt once',
    file: 'src/redis/timely-scripts.ts',
    text: 'const holds = known !== undefined && offsetMs <= known && known <= serverNowMs + 1 - sentAt',
    instead: 'const holds = known !== undefined',
  },
  {
    name: 'the breaker stays open',
    file: 'src/limiter/breaker.ts',
    text: 'this.isOpen = false\n    this.#failed',
    instead: 'this.#failed',
  },
  {
    name: 'each process grants all of the limit alone',
    file: 'src/limiter/fallback.ts',
    text: 'if (share === 1) return limit',
    instead: 'return limit',
  },
  {
    name: 'a process spends from leases that have ended',
    file: 'src/leases/holdings.ts',
    text: 'return now < this.endsAt - suspendedMs(this.offset) && now >= this.askedAt',
    instead: 'return true',
  },
  {
    name: 'a grant whose waiter has given up is kept',
    file: 'src/waiting/line/line-membership.ts',
    text: 'this.#returnGrant(waiter)\n        this.waiters.delete(waiter)',
    instead: 'this.waiters.delete(waiter)',
    uses: LINES,
    rule: BACK,
  },
  {
    name: 'whoever gives up stays in the line',
    file: 'src/waiting/line/line-membership.ts',
    text: "if (waiter.place === 'inside') this.changes.leaves.add(waiter)",
    instead: '',
    uses: LINES,
    rule: BACK,
  },
  {
    name: 'waiters of a dead process are never removed',
    file: 'lua/waiting/line/members.lua',
    text: 'members.GRACE_MS = 900',
    instead: 'members.GRACE_MS = 9e12',
    uses: LINES,
  },
  {
    name: 'unspent units of a lease stay with their process',
    file: 'src/leases/holdings.ts',
    text: '    this.#unspent = unspent\n',
    instead: '',
    uses: 'leases',
    rule: BACK,
  },
  {
    name: 'messages of a dead process stay with it',
    file: FETCH,
    text: 'buried, gone, ended = queues.expire(keys, now, 100, dead_ttl)',
    instead: 'buried, gone, ended = queues.expire(keys, now - 1e12, 100, dead_ttl)',
    uses: 'queue',
    rule: BACK,
  },
  {
    name: 'a settlement gives nothing back',
    file: 'lua/limiter/change.lua',
    text: 'if not is_doubtful then',
    instead: 'if false then',
    uses: 'settlements',
    rule: BACK,
  },
  {
    name: 'a settlement is too late after a tenth of the window',
    file: 'lua/limiter/changes/window_changes.lua',
    text: 'if now - starts_at >= window then return end',
    instead: 'if now - charged_at >= window * 0.1 then return end',
    uses: 'settlements',
    rule: BACK,
  },
  {
    name: 'a settlement gives back units of a later window',
    file: 'lua/limiter/changes/window_changes.lua',
    text: 'if charged_at < at or charged_at < starts_at or charged_at - starts_at >= window then return end',
    instead: '',
    uses: 'settlements',
  },
]
