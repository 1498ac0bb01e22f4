// Everything that a process can use, each in one way: a process of a run and one of a simulated schedule do the same.

import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import type { RedisClient } from '../../src/redis/client.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { SharedRateLimiter } from '../../src/waiting/rate/shared-rate-limiter.js'
import { Semaphore } from '../../src/waiting/semaphore/semaphore.js'
import type { Random } from '../../test/support/random.js'
import type { Changed, Decided, Limit, Look, Operation, Subject } from './history.js'

/** What a process uses, and how. */
export interface Use {
  readonly kind: 'decide' | 'acquire' | 'rate' | 'semaphore' | 'queue'
  readonly subject: Subject
  /** Pauses between two operations last up to so long. */
  readonly pauseMs: number
  /** So many keys, and costs up to so much; up to so many operations at once. */
  readonly keys: number
  readonly costs: number
  readonly atOnce: number
  /** One of so many operations is a change, of one of these kinds. */
  readonly changes: ReadonlyArray<Changed['op']>
  readonly changeRarely: number
  readonly denyCache: boolean
  /** Limits that replace those of the subject while it runs, with pauses up to so long. */
  readonly live?: { readonly limits: ReadonlyArray<readonly Limit[]>; readonly pauseMs: number }
}

/** An operation before it is asked for. */
export type Begun = Operation extends infer One
  ? One extends Operation
    ? Omit<One, 'id' | 'process' | 'askedAt'>
    : never
  : never

/** A process that uses something: real, or simulated. */
export interface Driver {
  /** Its name among those of the run. */
  readonly name: string
  readonly client: RedisClient
  readonly random: Random
  now(): number
  /** Nothing new is begun any more. */
  readonly isEnding: boolean
  pause(ms: number): Promise<unknown>
  /** How long the next one waits at most. */
  timeoutMs(): number
  /** Again and again until nothing new is begun, with pauses up to so long. */
  forever(mostMs: number, act: () => Promise<unknown>): Promise<void>
  /**
   * Does something, and writes down that it began and what came of it. Undefined: it failed, or was refused by an
   * error.
   */
  recorded<T>(
    begun: Begun,
    act: () => Promise<T>,
    facts?: (answer: T) => object,
  ): Promise<{ readonly id: number; readonly answer: T } | undefined>
  /** Called when the process has ended what it began. */
  onClose(close: () => Promise<unknown>): void
}

const SOURCES: Readonly<Record<string, Decided['source']>> = { redis: 'store', 'deny-cache': 'memory' }

/** What a call has used is often known only when others have been decided, or when the window is over. */
const SETTLED_LATE_MS = 3_000

/** A consumer alone takes what is left within this time. */
const EMPTIED_MS = 5_000

/** The words of a history for who has decided. */
export const sourceOf = (source: string): Decided['source'] => SOURCES[source] ?? (source as Decided['source'])

/** What a decision says. */
const factsOf = ({ allowed, source, remaining, retryAfterMs }: Decision) => {
  return { allowed, source: sourceOf(source), remaining, retryAfterMs }
}

/** What came of an operation that was answered by an error. */
export function failure(error: unknown): object {
  const { code } = error as { code?: string }
  return code === 'SPILLWAY_TIMEOUT' ? { allowed: false, granted: false } : { error: `${code ?? error}` }
}

/** Of limits, as a policy is written: two buckets of one limiter need names, or they would be one count. */
export function policyOf(limits: readonly Limit[] = []) {
  return limits.map(({ algorithm, quota, windowMs, burst }, i) => {
    const bucket = algorithm === 'token-bucket' || algorithm === 'leaky-bucket'
    return { quota, window: windowMs, algorithm, ...(bucket && { burst }), ...(i > 0 && { name: `limit ${i}` }) }
  })
}

/** Uses something until nothing new is begun. */
export function begin(use: Use, driver: Driver): Promise<unknown> {
  return KINDS[use.kind](use, driver)
}

const KINDS: Readonly<Record<Use['kind'], (use: Use, driver: Driver) => Promise<unknown>>> = {
  async decide(use, driver) {
    const { subject, keys, costs, changes, pauseMs } = use
    const limiter = await limiterOf(use, driver)
    const { random } = driver
    const one = async () => {
      const about = { subject: subject.name, key: `k${random.integer(1, keys)}` }
      const isChange = changes.length > 0 && random.integer(1, use.changeRarely) === 1
      const change = isChange ? random.pick(changes) : undefined
      const units = random.integer(1, costs)
      if (change !== undefined && change !== 'settle') return changed(driver, limiter, { ...about, change, units })
      const begun: Begun = { ...about, op: 'consume', cost: units }
      const done = await driver.recorded(begun, () => limiter.consume(about.key, units), factsOf)
      if (change !== 'settle' || !done?.answer.allowed) return
      const kept = random.integer(0, units)
      const settled: Begun = { ...about, op: 'settle', of: done.id, units: kept }
      const settle = () => driver.recorded(settled, () => limiter.settle(done.answer, kept))
      if (random.integer(1, 2) === 1) await settle()
      else settling.push(driver.pause(random.integer(1, SETTLED_LATE_MS)).then(settle))
    }
    const settling: Array<Promise<unknown>> = []
    // Several at once share a call.
    await driver.forever(pauseMs, () => Promise.all(Array.from({ length: random.integer(1, use.atOnce) }, one)))
    await Promise.all(settling)
  },

  async acquire(use, driver) {
    const { subject, pauseMs, costs, keys } = use
    const { random } = driver
    const limiter = await limiterOf(use, driver)
    const one = async () => {
      const [cost, timeoutMs] = [random.integer(1, costs), driver.timeoutMs()]
      const key = `k${random.integer(1, keys)}`
      const begun: Begun = { op: 'acquire', subject: subject.name, key, cost, timeoutMs }
      await driver.recorded(begun, () => limiter.acquire(key, { cost, timeout: timeoutMs }), factsOf)
    }
    await driver.forever(pauseMs, () => Promise.all(Array.from({ length: random.integer(1, use.atOnce) }, one)))
  },

  async rate({ subject, pauseMs }, driver) {
    const { name, limits = [] } = subject
    const rate = new SharedRateLimiter(driver.client, name, { observer: {} })
    driver.onClose(() => rate.close())
    const [{ quota, windowMs }] = limits
    // All set the same; who fails tries again.
    const set = () =>
      rate.trySetRate({ rate: quota, interval: windowMs }).then(
        () => true,
        () => false,
      )
    while (!driver.isEnding && !(await set()));
    await driver.forever(pauseMs, async () => {
      const timeoutMs = driver.timeoutMs()
      const begun: Begun = { op: 'acquire', subject: name, key: name, cost: 1, timeoutMs }
      const done = await driver.recorded(
        begun,
        () => rate.acquire(1, { timeout: timeoutMs }),
        () => ({ allowed: true, source: 'store' }),
      )
      // A server that has lost its keys does not know the rate.
      if (done === undefined) await set()
    })
  },

  async semaphore({ subject, pauseMs, costs }, driver) {
    const { name, permits = 1, holdMs = 1000 } = subject
    const semaphore = new Semaphore(driver.client, name, { permits, observer: {} })
    driver.onClose(() => semaphore.close())
    const { random } = driver
    await driver.forever(pauseMs, async () => {
      const about = { subject: name, key: name, permits: random.integer(1, Math.min(costs, permits)) }
      const timeoutMs = driver.timeoutMs()
      // Some are called back before.
      const control = random.integer(1, 6) === 1 ? new AbortController() : undefined
      if (control) void driver.pause(random.integer(0, 100)).then(() => control.abort(new Error('called back')))
      const options = { permits: about.permits, timeout: timeoutMs, lease: holdMs, signal: control?.signal }
      const held = await driver.recorded(
        { ...about, op: 'hold', timeoutMs },
        () => semaphore.acquire(options),
        ({ token }) => ({ granted: true, token: Number(token) }),
      )
      if (held === undefined) return
      const { id: of, answer: lease } = held
      // Who hears that it has lost its permits holds them no longer.
      const lost = () => void driver.recorded({ ...about, op: 'release', of, isLost: true }, async () => {})
      lease.signal.addEventListener('abort', lost)
      await driver.pause(random.integer(0, 150))
      if (lease.held) await driver.recorded({ ...about, op: 'release', of }, () => lease.release())
    })
  },

  queue({ subject, pauseMs }, driver) {
    const { name, holdMs = 1000 } = subject
    const { random } = driver
    const queue = new DelayQueue<number>(driver.client, name, { maxAttempts: 1000, observer: {} })
    const consumer = queue.consume(
      async delivery => {
        const about = { subject: name, key: delivery.id, attempt: delivery.attempt }
        await driver.recorded({ ...about, op: 'handle' }, () => driver.pause(random.integer(1, 40)))
        await driver.recorded({ ...about, op: 'acknowledge' }, () => delivery.ack())
      },
      { concurrency: 3, visibility: holdMs },
    )
    driver.onClose(() => consumer.close())
    let sent = 0
    return driver.forever(pauseMs, async () => {
      const id = `${driver.name}-${++sent}`
      const delayMs = random.integer(0, 1) * random.integer(1, 1000)
      const begun: Begun = { op: 'send', subject: name, key: id, delayMs }
      await driver.recorded(begun, () => queue.push(sent, { id, delay: delayMs }))
    })
  },
}

type Found = Omit<Look, 'subject' | 'key' | 'askedAt' | 'answeredAt'>

/** Looks what is free of something, key by key. `last`: takes it all, since nothing of it may be missing any more. */
export async function look(use: Use, driver: Driver, last: boolean, looked: (look: Look) => void): Promise<void> {
  const { kind, subject } = use
  const of = async (key: string, ask: () => Promise<Found>) => {
    const askedAt = driver.now()
    const found = await ask().catch((error: unknown): Found => ({ error: `${error}` }))
    looked({ subject: subject.name, key, askedAt, answeredAt: driver.now(), ...found })
  }
  if (kind === 'rate' || kind === 'semaphore' || kind === 'queue') {
    await of(subject.name, () => LOOKS[kind](subject, driver, last))
    return
  }
  const limiter = await limiterOf(use, driver)
  for (let i = 1; i <= use.keys; i++) await of(`k${i}`, () => lookAtKey(use, limiter, `k${i}`, last))
}

async function lookAtKey({ kind, subject }: Use, limiter: RateLimiter, key: string, last: boolean): Promise<Found> {
  const { source, remaining } = await limiter.peek(key, 0)
  if (!last || kind !== 'acquire') return sourceOf(source) === 'store' ? { free: remaining } : { error: source }
  const all = Math.min(...(subject.limits ?? []).map(({ burst }) => burst))
  const { allowed } = await limiter.acquire(key, { cost: all, timeout: 0 })
  return { free: allowed ? all : remaining, waiting: !allowed && remaining === all ? 1 : 0 }
}

const LOOKS: Readonly<Record<string, (subject: Subject, driver: Driver, last: boolean) => Promise<Found>>> = {
  async rate({ name, limits: [{ quota, windowMs }] = [] as never }, driver, last) {
    const rate = new SharedRateLimiter(driver.client, name, { observer: {} })
    driver.onClose(() => rate.close())
    await rate.trySetRate({ rate: quota, interval: windowMs })
    const free = await rate.availablePermits()
    return { free: last && !(await rate.tryAcquire(quota)) ? 0 : free }
  },

  async semaphore({ name, permits = 1 }, driver, last) {
    const semaphore = new Semaphore(driver.client, name, { permits, observer: {} })
    driver.onClose(() => semaphore.close())
    const [free, waiting] = [await semaphore.availablePermits(), await semaphore.waiting()]
    if (!last) return { free, waiting }
    const lease = await semaphore.tryAcquire({ permits })
    await lease?.release()
    return { free: lease === null ? 0 : free, waiting }
  },

  async queue({ name }, driver, last) {
    if (!last) return {}
    const queue = new DelayQueue(driver.client, name, { observer: {} })
    const consumer = queue.consume(async delivery => void (await delivery.ack()))
    await driver.pause(EMPTIED_MS)
    await consumer.close()
    const { ready, delayed, unacked } = await queue.stats()
    return { messages: ready + delayed + unacked }
  },
}

async function limiterOf({ subject, live, denyCache }: Use, driver: Driver): Promise<RateLimiter> {
  const { name, limits, deadlineMs, localShare, leased } = subject
  const store = new RedisStore(driver.client, { prefix: leased ? 'leasing' : 'spillway', leases: leased === true })
  driver.onClose(() => store.close())
  let policy: ConstructorParameters<typeof RateLimiter>[0]['policy'] = policyOf(limits)
  if (live) {
    const policies = new LivePolicies(driver.client, { defaults: { [name]: policyOf(limits) }, observer: {} })
    driver.onClose(() => policies.close())
    policy = policies.policy(name, key => key)
    void driver.forever(live.pauseMs, async () => {
      const next = driver.random.pick(live.limits)
      const begun: Begun = { op: 'limits', subject: name, key: '', limits: next }
      await driver.recorded(begun, () => policies.set(name, policyOf(next)))
    })
  }
  const limiter = new RateLimiter({ name, policy, store, deadline: deadlineMs, localShare, denyCache, observer: {} })
  // Until Redis has answered for the first time, a decision may take longer.
  await limiter.peek('first').catch(() => {})
  return limiter
}

interface Change {
  readonly subject: string
  readonly key: string
  readonly change: Exclude<Changed['op'], 'settle'>
  readonly units: number
}

async function changed(driver: Driver, limiter: RateLimiter, { change, units, ...about }: Change): Promise<void> {
  const { key } = about
  const blockMs = change === 'block' ? driver.random.integer(50, 2000) : 0
  const acts: Readonly<Record<typeof change, readonly [facts: object, act: () => Promise<unknown>]>> = {
    block: [{ blockMs }, () => limiter.block(key, blockMs)],
    unblock: [{}, () => limiter.unblock(key)],
    reset: [{}, () => limiter.reset(key)],
    refund: [{ units }, () => limiter.refund(key, units)],
    charge: [{ units }, () => limiter.charge(key, units)],
  }
  const [said, act] = acts[change]
  await driver.recorded({ ...about, op: change, ...said }, act)
}
