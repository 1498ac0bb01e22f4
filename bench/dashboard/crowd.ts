import type { Redis } from 'ioredis'
import { DelayQueue, RateLimiter, RedisStore, Semaphore } from '../../src/index.js'
import { ChangeHistory } from '../../src/operating/dashboard/server/change-history.js'
import { LivePolicies } from '../../src/operating/live/index.js'
import { portOf } from '../../src/redis/clients.js'
import { runScript } from '../../src/redis/script.js'
import { semaphoreTake } from '../../src/redis/scripts.js'
import { newLeaseName } from '../../src/waiting/semaphore/lease-name.js'
import { LIMITS, PROCESSES } from './fleet.js'

export const QUEUES = 20
export const SEMAPHORES = 50
export const LEASES = 50_000
const LEASES_AT_ONCE = 100
const MESSAGES = 100
const DEAD_LETTERS = 20
const BLOCKS = 200
const CHANGES = 200
const EVENTS = 300

/** What the pages list beside limits: semaphores with their leases, queues, blocks, changes and events. */
export class Crowd {
  readonly live: LivePolicies
  readonly #queues: ReadonlyArray<DelayQueue<string>>
  readonly #semaphores: readonly Semaphore[]

  constructor(readonly client: Redis) {
    const defaults = Object.fromEntries(Array.from({ length: LIMITS }, (_, i) => [`limiter-${i}`, `${100 + i}/1m`]))
    this.live = new LivePolicies(client, { defaults })
    this.#queues = Array.from({ length: QUEUES }, (_, i) => new DelayQueue<string>(client, `queue-${i}`))
    const permits = LEASES / SEMAPHORES
    this.#semaphores = Array.from(
      { length: SEMAPHORES },
      (_, i) => new Semaphore(client, semaphoreName(i), { permits }),
    )
  }

  async fill(): Promise<void> {
    for (let i = 0; i < SEMAPHORES; i++) await this.#hold(semaphoreName(i), LEASES / SEMAPHORES)
    for (const queue of this.#queues) await fillQueue(queue)
    const limiter = new RateLimiter({ policy: '100/1m', name: 'limiter-0', store: new RedisStore(this.client) })
    for (let i = 0; i < BLOCKS; i++) await limiter.block(`198.51.100.${i}`, '1h')
  }

  /** The changes and events of a day. `keys`: of the events, and their facts; `changes`: of the changes. */
  async happen(keys: readonly string[], changes: string): Promise<void> {
    const history = new ChangeHistory(this.client, changes)
    for (let i = 0; i < CHANGES; i++) {
      const act = { act: 'unblock', limiter: 'limiter-0', key: `192.0.2.${i}` } as const
      await history.note({ what: 'Block ended', subject: 'limiter-0', key: act.key, user: 'ada', act })
    }
    for (let i = 0; i < EVENTS; i++) {
      const at = Date.now() - i * 60_000
      const member = `${at} ${JSON.stringify({ kind: 'outage', service: `service-${i % 8}` })}`
      await this.client.zadd(keys[0], at + 1000, member)
      await this.client.hset(keys[1], member, '312 0 connect ECONNREFUSED')
    }
  }

  /** What processes hold: not by `acquire`, which would renew 50 000 leases from here. */
  async #hold(name: string, count: number): Promise<void> {
    const base = `spillway:{${name}}:semaphore`
    for (let taken = 0; taken < count; taken += LEASES_AT_ONCE) {
      const leases = Array.from({ length: LEASES_AT_ONCE }, (_, i) => newLeaseName(1, `process-${i % PROCESSES}/1`))
      const args = ['3600000', String(Number.MAX_SAFE_INTEGER), '', String(count), '-1', ...leases]
      await runScript(portOf(this.client, 'bench'), semaphoreTake, [`${base}:open`, `${base}:held`, base], args)
    }
  }

  async close(): Promise<void> {
    await this.live.close()
    await Promise.all([...this.#queues, ...this.#semaphores].map(object => object.close()))
  }
}

function semaphoreName(i: number): string {
  return `semaphore-${i}`
}

async function fillQueue(queue: DelayQueue<string>): Promise<void> {
  const dead = Array.from({ length: DEAD_LETTERS }, (_, i) => queue.push(`dead ${i}`, { maxAttempts: 1 }))
  await Promise.all(dead)
  let rest = DEAD_LETTERS
  await new Promise<void>(done => {
    const consumer = queue.consume(
      async delivery => {
        await delivery.reject('ENOTFOUND')
        if (--rest === 0) void consumer.close().then(done)
      },
      { concurrency: DEAD_LETTERS },
    )
  })
  await Promise.all(Array.from({ length: MESSAGES }, (_, i) => queue.push(`message ${i}`, { delay: '1h' })))
}
