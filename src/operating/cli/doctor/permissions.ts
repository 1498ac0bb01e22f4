import { BlockRule } from '../../../limiter/block-rule.js'
import { keySegment } from '../../../limiter/core/key-segment.js'
import { ALGORITHM_NAMES, parseLimit } from '../../../limiter/core/limit.js'
import type { Charge } from '../../../limiter/store.js'
import { connectionOf } from '../../../redis/clients.js'
import type { RedisCounts } from '../../../redis/store/redis-counts.js'
import { RedisStore } from '../../../redis/store/redis-store.js'
import { redisLineOf } from '../../../waiting/line/limiter-lines.js'
import { lineAnswer } from '../../../waiting/line/line-answer.js'
import type { SecureAddress } from '../redis-address.js'
import { Connection, ReplyError, type ReplyLimits } from '../redis-connection.js'
import { type Finding, ok, problem, warning } from './diagnosis.js'

const SCRIPTS = 'scripts'
/** A cluster node has only some of the keys: the doctor tries this many to find one of its keys. */
const MOST_KEYS = 200
/** How long an ask of a waiting line may take. */
const SCRIPT_TIMEOUT_MS = 1000

type Act = (store: RedisStore, charges: readonly Charge[], counts: RedisCounts) => Promise<unknown>
type Operation = readonly [name: string, act: Act]

/** All operations that limiters perform on a server. */
const OPERATIONS: readonly Operation[] = [
  ['peek', (store, charges) => store.peek(charges, 1)],
  ['consume', (store, charges) => store.consume(charges, 1)],
  ['settle', (store, charges) => store.charge(charges, 1)],
  ['refund', (store, charges) => store.refund(charges, 1)],
  [
    'count denials',
    (_, [charge], counts) => counts.strike(charge, { count: 1, ageMs: 0 }, new BlockRule(1, 1000, 1, 2, 1, 1)),
  ],
  ['block', (store, charges) => store.block(charges, 1)],
  ['unblock', (store, charges) => store.block(charges, 0)],
  ['acquire', wait],
  ['reset', (store, charges) => store.reset(charges)],
]

/** Checks the permissions that limiters need by trying everything, with a key that expires within seconds. */
export async function scriptFinding(connection: Connection, prefix: string, cluster: boolean): Promise<Finding> {
  let counts!: RedisCounts
  const redis = connectionOf(connection.client(cluster), 'doctor')
  const store = new RedisStore(redis, { prefix }, own => {
    counts = own
    return { counts }
  })
  const key = await ownKey(store)
  if (key === undefined) {
    return warning(SCRIPTS, 'not tried: this node has none of the tried keys', 'run the doctor on another node')
  }
  const failures = new Map<string, string[]>()
  for (const algorithm of ALGORITHM_NAMES) {
    const charges = [{ ...key, limit: parseLimit({ quota: 2, window: 1000, algorithm }) }]
    for (const [name, act] of OPERATIONS) {
      try {
        await act(store, charges, counts)
      } catch (error) {
        const reason = reasonOf(error)
        const names = failures.get(reason) ?? []
        if (!names.includes(name)) failures.set(reason, [...names, name])
      }
    }
  }
  if (failures.size === 0) return ok(SCRIPTS, 'every script runs, under all algorithms')
  const parts = [...failures].map(([reason, names]) => `${names.join(', ')}: ${reason}`)
  return problem(SCRIPTS, parts.join('; '), remedyFor(parts.join()))
}

/** Checks the permission for the channels that wake waiters of `acquire`. */
export async function channelFinding(address: SecureAddress, prefix: string, limits: ReplyLimits): Promise<Finding> {
  const turns = `${keySegment(prefix)}!turns:`
  const listener = await Connection.open(address, limits)
  try {
    const reply = await listener.ask('SUBSCRIBE', `${turns}doctor`)
    if (!(reply instanceof ReplyError)) return ok('channels', 'may be heard')
    const lost = 'waiters in acquire receive no wake-ups, and ask about once a second instead'
    const remedy = `allow publish, subscribe and unsubscribe, and the channels: &${turns}*`
    return warning('channels', `${reply.message}: ${lost}`, remedy)
  } finally {
    listener.close()
  }
}

async function wait(store: RedisStore, charges: readonly Charge[], counts: RedisCounts): Promise<void> {
  const line = redisLineOf(counts, charges)
  if (line === undefined) return
  const member = `doctor/${process.pid}`
  const own = charges.map(({ limit }) => `${limit.quota} ${limit.windowMs} ${limit.burst}`).join(' ')
  const waiters = Array.from({ length: 4 }, (_, i) => `${i} 1 ${own}`)
  const ask = (number: number, stamp: string, changes: string) =>
    line.ask(
      { member, replaces: '', words: [member, String(number), stamp, '', '', changes], copies: { latestMs: 0 } },
      performance.now() + SCRIPT_TIMEOUT_MS,
    )
  // Some of the four have to wait, and leave the line again.
  const reply = await ask(1, '', waiters.map(waiter => `j\n${waiter}\n\n-1\n`).join(''))
  const { stamp } = lineAnswer(reply, 2 * charges.length)
  // Wakes those who wait.
  await store.refund(charges, 1)
  await ask(2, stamp, waiters.map(waiter => `l\n${waiter}\n\n\n`).join(''))
}

async function ownKey(store: RedisStore): Promise<Pick<Charge, 'key' | 'limiter'> | undefined> {
  const limit = parseLimit({ quota: 1, window: 1000 })
  for (let i = 0; i < MOST_KEYS; i++) {
    const charge = { key: `!doctor ${process.pid} ${i}`, limiter: '!doctor' }
    try {
      await store.peek([{ ...charge, limit }], 0)
    } catch (error) {
      if (/MOVED|ASK /.test(reasonOf(error))) continue
    }
    return charge
  }
  return undefined
}

/** The server's message without the position in the script. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  const text = cause instanceof Error ? cause.message : message
  return text.replace(/,? ?script: [0-9a-f]{40}.*$/, '')
}

function remedyFor(reasons: string): string {
  if (/NOPERM|can't run this command|no permissions|ACL/i.test(reasons)) {
    return 'allow what docs/operating.md lists under "Permissions"'
  }
  if (/unknown command/i.test(reasons))
    return 'enable the command: rename-command may have taken it, or the service lacks it'
  if (reasons.includes('BUSY')) return 'a script runs for too long: SCRIPT KILL ends it'
  if (reasons.includes('OOM')) return 'free memory or raise maxmemory'
  if (reasons.includes('READONLY')) return 'connect to the primary'
  return 'see what the server says'
}
