// Histories of servers that keep every promise, in a time of their own: what the checker must find nothing wrong with,
// and what violations are planted in.
import { type Random, randomFrom } from '../../test/support/random.js'
import type { Decided, Fault, Held, History, Limit, Message, Operation, Subject } from './history.js'

const LENGTH_MS = 20_000
const part = (random: Random): number => random.integer(0, 9_999) / 10_000
const limit = (algorithm: Limit['algorithm'], quota: number, windowMs: number, burst = quota): Limit => ({
  algorithm,
  quota,
  windowMs,
  burst,
})

export const SUBJECTS: readonly Subject[] = [
  { name: 'sliding', kind: 'limiter', limits: [limit('sliding-window', 10, 1000)], deadlineMs: 50, localShare: 0.5 },
  { name: 'fixed', kind: 'limiter', limits: [limit('fixed-window', 10, 1000)], deadlineMs: 50 },
  { name: 'counter', kind: 'limiter', limits: [limit('sliding-counter', 10, 1000)], deadlineMs: 50 },
  { name: 'bucket', kind: 'limiter', limits: [limit('token-bucket', 10, 1000, 20)], deadlineMs: 50 },
  { name: 'leaky', kind: 'limiter', limits: [limit('leaky-bucket', 10, 1000, 5)], deadlineMs: 50 },
  {
    name: 'both',
    kind: 'limiter',
    limits: [limit('sliding-window', 5, 500), limit('sliding-window', 20, 4000)],
    deadlineMs: 50,
  },
  { name: 'rate', kind: 'rate', limits: [limit('sliding-window', 10, 1000)], deadlineMs: 50 },
  { name: 'permits', kind: 'semaphore', permits: 3, deadlineMs: 50, holdMs: 2000 },
  { name: 'queue', kind: 'queue', deadlineMs: 50, holdMs: 1000 },
]

/** The units that fit, by the algorithm's own words; states are lists of [moment, units]. */
class Model {
  readonly #spent: [at: number, units: number][] = []
  #windowAt = Number.NEGATIVE_INFINITY
  #units = 0
  #level = 0
  #levelAt = 0

  constructor(readonly limit: Limit) {}

  left(at: number): number {
    const { algorithm, quota, windowMs, burst } = this.limit
    const between = (from: number, until: number) => {
      return this.#spent.reduce((sum, [moment, units]) => sum + (moment > from && moment <= until ? units : 0), 0)
    }
    if (algorithm === 'sliding-window') return quota - between(at - windowMs, at)
    if (algorithm === 'fixed-window') return at >= this.#windowAt + windowMs ? quota : quota - this.#units
    if (algorithm === 'sliding-counter') {
      const start = Math.floor(at / windowMs) * windowMs
      const weight = 1 - (at - start) / windowMs
      return Math.floor(quota - between(start - 0.001, at) - weight * between(start - windowMs - 0.001, start - 0.001))
    }
    return Math.floor(burst - this.#levelOf(at))
  }

  spend(at: number, units: number): void {
    if (at >= this.#windowAt + this.limit.windowMs) {
      this.#windowAt = at
      this.#units = 0
    }
    this.#units += units
    this.#level = this.#levelOf(at) + units
    this.#levelAt = at
    this.#spent.push([at, units])
  }

  #levelOf(at: number): number {
    return Math.max(0, this.#level - ((at - this.#levelAt) * this.limit.quota) / this.limit.windowMs)
  }
}

/** When an operation is asked, happens, and is answered. */
function times(random: Random, around: number): { askedAt: number; at: number; answeredAt: number } {
  const at = around + part(random) * 3
  return { askedAt: around, at, answeredAt: at + part(random) * 3 }
}

/** A whole run, the same for the same seed. */
export function honest(seed: string): History {
  const random = randomFrom(seed)
  let id = 0
  const next = () => ({ id: ++id, process: `p${1 + random.integer(0, 2)}` })
  const operations: Operation[] = []
  for (const subject of SUBJECTS) {
    if (subject.kind === 'limiter') operations.push(...decided(subject, random, next))
    else if (subject.kind === 'rate') operations.push(...turns(subject, random, next))
    else if (subject.kind === 'semaphore') operations.push(...held(subject, random, next))
    else operations.push(...messages(subject, random, next))
  }
  return { subjects: SUBJECTS, operations, faults: [], leftKeys: [], endedAt: LENGTH_MS + 10_000 }
}

type Next = () => { id: number; process: string }

function decided({ name, limits = [] }: Subject, random: Random, next: Next): Decided[] {
  const asked = Array.from({ length: 250 }, () => times(random, part(random) * LENGTH_MS))
  const models = new Map<string, Model[]>()
  return asked
    .sort((one, two) => one.at - two.at)
    .map(({ askedAt, at, answeredAt }) => {
      const key = `k${random.integer(0, 1)}`
      const cost = 1 + random.integer(0, 2)
      const all = models.get(key) ?? limits.map(limit => new Model(limit))
      models.set(key, all)
      const leftAt = (moment: number) => Math.min(...all.map(model => model.left(moment)))
      const left = leftAt(at)
      const allowed = left >= cost
      let retryAfterMs = 0
      while (leftAt(at + retryAfterMs) < cost) retryAfterMs++
      if (allowed) for (const model of all) model.spend(at, cost)
      const remaining = allowed ? left - cost : Math.max(0, left)
      const facts = { op: 'consume', subject: name, key, cost, allowed, source: 'store', remaining } as const
      return { ...next(), askedAt, answeredAt, ...facts, retryAfterMs }
    })
}

/** One line of waiters: each is granted one unit when its turn comes. */
function turns({ name, limits = [] }: Subject, random: Random, next: Next): Decided[] {
  const model = new Model(limits[0])
  let free = 0
  return Array.from({ length: 150 }, () => part(random) * LENGTH_MS)
    .sort((one, two) => one - two)
    .map(askedAt => {
      free = Math.max(free, askedAt + part(random) * 3)
      while (model.left(free) < 1) free += 1
      model.spend(free, 1)
      const facts = { op: 'acquire', subject: name, key: 'r', cost: 1, timeoutMs: 60_000 } as const
      return {
        ...next(),
        ...facts,
        askedAt,
        answeredAt: free + part(random) * 3,
        allowed: true,
        source: 'store' as const,
      }
    })
}

function held({ name, permits: most = 0 }: Subject, random: Random, next: Next): Held[] {
  const all: Held[] = []
  const ends: number[] = []
  let token = 0
  let at = 0
  for (let i = 0; i < 100; i++) {
    const askedAt = at + part(random) * 100
    ends.sort((one, two) => one - two)
    const grantedAt = ends.length < most ? askedAt + 1 : Math.max(askedAt + 1, (ends.shift() ?? 0) + 1)
    const answeredAt = grantedAt + part(random)
    const { id, process } = next()
    const facts = { process, subject: name, key: 's', permits: 1 }
    all.push({ id, ...facts, op: 'hold', askedAt, answeredAt, granted: true, token: ++token, timeoutMs: 60_000 })
    const releasedAt = answeredAt + 50 + part(random) * 300
    all.push({ ...facts, id: next().id, op: 'release', of: id, askedAt: releasedAt, answeredAt: releasedAt + 2 })
    ends.push(releasedAt + 2)
    at = askedAt
  }
  return all
}

function messages({ name }: Subject, random: Random, next: Next): Message[] {
  const all: Message[] = []
  for (let i = 0; i < 100; i++) {
    const key = `m${i}`
    const askedAt = part(random) * LENGTH_MS
    const delayMs = random.integer(0, 1) * 500
    all.push({ ...next(), op: 'send', subject: name, key, askedAt, answeredAt: askedAt + 2, delayMs })
    let at = askedAt + delayMs + 5
    const tries = 1 + random.integer(0, 1)
    for (let attempt = 1; attempt <= tries; attempt++) {
      const { process } = next()
      const common = { process, subject: name, key }
      all.push({ ...common, id: next().id, op: 'handle', askedAt: at, answeredAt: at + 20, attempt })
      if (attempt === tries)
        all.push({ ...common, id: next().id, op: 'acknowledge', askedAt: at + 20, answeredAt: at + 22 })
      at += 100
    }
  }
  return all
}

/** A copy with faults. */
export const withFaults = (history: History, ...faults: Fault[]): History => ({ ...history, faults })
