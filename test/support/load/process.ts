// One of the processes under load: asks as its parent orders, and reports. Run by load.ts.
import { setImmediate } from 'node:timers'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { RedisStore } from '../../../src/redis/store/redis-store.js'
import { type LoadClient, makeClient } from './clients.js'
import { type ClientKind, epochMs, type KeyTally, type Order, type Report, type Scene } from './scene.js'
import { Starvation } from './starvation.js'

const TICK_MS = 20
const KEYS_LIVE_MS = 50
/** So many answers in a row show that a process is back. */
const ENOUGH = 100

const unhandled: string[] = []
process.on('unhandledRejection', reason => unhandled.push(`rejection: ${String(reason)}`))
process.on('uncaughtException', error => unhandled.push(`exception: ${error.stack}`))
process.on('warning', warning => unhandled.push(`warning: ${warning.message}`))

/** Keeps so many decisions in flight: whoever has an answer asks again at the next tick. */
class Asking {
  readonly #starvation = new Starvation()
  readonly #keys = new Map<string, KeyTally>()
  readonly #errors = new Set<string>()
  readonly #limiter: RateLimiter
  readonly #timer: ReturnType<typeof setInterval>
  #idle: number
  #asked = 0
  #decisions = 0
  #degraded = 0
  #slowest = 0
  #slowestRaw = 0
  #opened = 0
  #closed = 0
  /** What was asked before is not timed: then the process was cold, and compiled what it ran. */
  #timedFrom = Number.POSITIVE_INFINITY
  #streak = 0
  #streakBegan = 0

  constructor(
    readonly kind: ClientKind,
    readonly scene: Scene,
    readonly client: LoadClient,
  ) {
    this.#limiter = new RateLimiter({
      // A window that counts in constant memory where the heap is watched.
      policy: { quota: scene.quota, window: '1h', algorithm: scene.sameKeys ? 'fixed-window' : 'sliding-window' },
      store: new RedisStore(client.client),
      deadline: scene.deadlineMs,
      localShare: scene.share / scene.quota,
      observer: {
        storeFailed: error => this.#errors.add(`${error.message}`),
        breakerOpened: () => this.#opened++,
        breakerClosed: () => this.#closed++,
      },
    })
    this.#idle = scene.inFlight
    this.#timer = setInterval(() => {
      while (this.#idle > 0) this.#ask()
    }, TICK_MS)
  }

  /** When the present run of answers from Redis began, if it is long enough. */
  backSince(since: number): number | undefined {
    return this.#streak >= ENOUGH ? Math.max(since, this.#streakBegan) : undefined
  }

  time(): void {
    this.#timedFrom = performance.now()
  }

  async end(): Promise<Report> {
    clearInterval(this.#timer)
    while (this.#idle < this.scene.inFlight) await new Promise(done => setTimeout(done, TICK_MS))
    this.#starvation.stop()
    await this.#limiter.close()
    this.client.close()
    return {
      client: this.kind,
      decisions: this.#decisions,
      degraded: this.#degraded,
      slowestMs: this.#slowest,
      slowestRawMs: this.#slowestRaw,
      keys: this.#keys,
      opened: this.#opened,
      closed: this.#closed,
      errors: [...this.#errors],
      unhandled: unhandled.splice(0),
    }
  }

  #ask(): void {
    this.#idle--
    const now = epochMs()
    const { keys, sameKeys } = this.scene
    const key = `${sameKeys ? '' : Math.floor(now / KEYS_LIVE_MS)}.${this.#asked++ % keys}`
    let tally = this.#keys.get(key)
    if (tally === undefined) {
      tally = { firstAt: now, lastAt: now, asked: 0, redis: 0, fallback: 0, degraded: 0 }
      this.#keys.set(key, tally)
    }
    tally.lastAt = now
    tally.asked++
    const askedAt = performance.now()
    this.#limiter.consume(key).then(
      decision => this.#answered(tally, decision, askedAt),
      error => unhandled.push(`consume rejected: ${error.stack}`),
    )
  }

  #timed(askedAt: number): void {
    const tookMs = performance.now() - askedAt
    this.#slowestRaw = Math.max(this.#slowestRaw, tookMs)
    if (tookMs <= this.#slowest) return
    this.#slowest = Math.max(this.#slowest, tookMs - this.#starvation.since(askedAt + this.scene.deadlineMs))
  }

  #answered(tally: KeyTally, decision: Decision, askedAt: number): void {
    this.#idle++
    this.#decisions++
    if (askedAt >= this.#timedFrom) this.#timed(askedAt)
    if (decision.degraded) {
      this.#degraded++
      tally.degraded++
      if (decision.allowed) tally.fallback++
      this.#streak = 0
    } else if (decision.source === 'redis') {
      if (decision.allowed) tally.redis++
      if (this.#streak++ === 0) this.#streakBegan = epochMs()
    }
  }
}

let asking: Asking | undefined

async function obey(order: Order): Promise<unknown> {
  switch (order.order) {
    case 'begin':
      asking = new Asking(order.client, order.scene, await makeClient(order.client, order.scene.place))
      return undefined
    case 'back': {
      const end = epochMs() + order.timeoutMs
      for (;;) {
        const at = asking?.backSince(order.since)
        if (at !== undefined || epochMs() > end) return at ?? Number.POSITIVE_INFINITY
        await new Promise(done => setTimeout(done, 5))
      }
    }
    case 'time':
      return asking?.time()
    case 'heap':
      globalThis.gc?.()
      await new Promise(done => setImmediate(done))
      globalThis.gc?.()
      return process.memoryUsage().heapUsed
    case 'end': {
      const report = await asking?.end()
      asking = undefined
      return report
    }
  }
}

process.on('message', (order: Order) => {
  obey(order).then(
    answer => process.send?.({ answer }),
    error => process.send?.({ error: String(error?.stack ?? error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ answer: 'up' })
