import { LeaseBook } from '../../src/leases/leases.js'
import { leaseTerms } from '../../src/leases/terms.js'
import { type Limit, parsePolicy } from '../../src/limiter/core/limit.js'
import type { Reply } from '../../src/limiter/port.js'
import { SimulatedSeller, SimulatedServer } from '../../test/leases/simulated-seller.js'
import { Spending } from '../../test/support/leases/spending.js'
import { type Random, randomFrom } from '../../test/support/random.js'

/** How a design fares in simulation. */
export interface DesignOutcome {
  /** Of the quota, after the first window. */
  readonly used: number
  /** Most units above the quota in any window, as a part of the quota. */
  readonly excess: number
  readonly callsPerSecond: number
}

export interface Scene {
  readonly policy: string
  readonly processes: number
  /** Demand of all processes together, as a multiple of the limit. */
  readonly demand: number
  /** The part of all requests that one process gets; the others share the rest evenly. */
  readonly first: number
  readonly windows: number
}

/** A design, as one process after another asks it for some units in one ms. */
interface Design {
  hit(process: number, hits: number, now: number): number
  tick(now: number): Promise<void>
  calls: number
}

const SYNC_MS = 100

/** Each ms every process gets as many requests as chance has it. */
async function play({ policy, processes, demand, first, windows }: Scene, design: Design): Promise<DesignOutcome> {
  const [{ quota, windowMs }] = parsePolicy(policy)
  const random = randomFrom(`${policy} ${processes}`)
  const spending = new Spending()
  const perMs = (demand * quota) / windowMs
  const start = 1_000_000
  const end = start + windows * windowMs
  for (let now = start; now < end; now++) {
    await design.tick(now)
    const [one, rest] = split(random, poisson(random, perMs), processes, first)
    if (one > 0) spend(spending, now, design.hit(0, one, now))
    for (const [process, hits] of rest) spend(spending, now, design.hit(process, hits, now))
  }
  const seconds = ((windows - 1) * windowMs) / 1000
  return {
    used: spending.between(start + windowMs, end) / (quota * (windows - 1)),
    excess: Math.max(0, spending.inWindows(quota, windowMs).excess) / quota,
    callsPerSecond: design.calls / (seconds + windowMs / 1000),
  }
}

function spend(spending: Spending, now: number, units: number): void {
  if (units > 0) spending.add(now, now, units)
}

function split(random: Random, hits: number, processes: number, first: number): [number, Map<number, number>] {
  let one = 0
  const rest = new Map<number, number>()
  for (let i = 0; i < hits; i++) {
    if (processes === 1 || random.integer(0, 999_999) < first * 1_000_000) one++
    else {
      const process = random.integer(1, processes - 1)
      rest.set(process, (rest.get(process) ?? 0) + 1)
    }
  }
  return [one, rest]
}

function poisson(random: Random, mean: number): number {
  if (mean > 30)
    return Math.max(
      0,
      Math.round(mean + (Math.sqrt(mean) * (random.integer(-1000, 1000) + random.integer(-1000, 1000))) / 816),
    )
  let count = -1
  for (let product = 1; product > Math.exp(-mean); count++) product *= (random.integer(0, 999_999) + 1) / 1_000_000
  return count
}

/** The real code over a simulated server; an answer takes 1 ms. */
export function leases(scene: Scene): Promise<DesignOutcome> {
  const limits = parsePolicy(scene.policy)
  const terms = leaseTerms(limits, { ttlMs: undefined, strict: true, store: 'RedisStore' })
  if (terms === undefined) throw new Error(`${scene.policy} is not leased`)
  const server = new SimulatedServer(terms)
  let now = 0
  const seller = new SimulatedSeller(server, () => now)
  const deferred: (() => void)[] = []
  let granted = 0
  const design: Design = {
    calls: 0,
    hit(process, hits, at) {
      now = at
      const before = granted
      const book = books[process]
      for (let i = 0; i < hits; i++) {
        if (book.spend('k', 1, now) !== undefined) granted++
        else if (book.refusal('k', 1) === undefined && !book.ask('k', 1, reply)) decide()
      }
      return granted - before
    },
    async tick(at) {
      now = at
      late = granted
      for (const message of seller.messages.splice(0)) {
        message.arrive()
        message.answer()
        design.calls++
      }
      for (const send of deferred.splice(0)) send()
      await undefined
      await undefined
      await undefined
    },
  }
  let late = 0
  const decide = () => {
    design.calls++
    if (server.spend(now)) granted++
  }
  const reply: Reply = {
    endsAt: Number.MAX_SAFE_INTEGER,
    resolve: verdicts => {
      if (verdicts.every(({ allowed }) => allowed)) granted++
    },
    reject: () => {},
  }
  const books = Array.from({ length: scene.processes }, () => {
    return new LeaseBook({
      terms,
      seller,
      now: () => now,
      defer: send => deferred.push(send),
      decide: () => decide(),
      busy: new Set(),
    })
  })
  const counted: Design = {
    get calls() {
      return design.calls
    },
    async tick(at) {
      await design.tick(at)
      carried += granted - late
    },
    hit(process, hits, at) {
      // What was granted between two ticks belongs to this ms.
      const more = carried
      carried = 0
      return more + design.hit(process, hits, at)
    },
  }
  let carried = 0
  return play(scene, counted).finally(() => {
    for (const book of books) void book.close()
  })
}

/** Every decision asks Redis: exact. */
export function exact(scene: Scene): Promise<DesignOutcome> {
  const window = new CountedWindow(parsePolicy(scene.policy)[0])
  const design: Design = {
    calls: 0,
    hit(_, hits, now) {
      design.calls += hits
      return window.take(hits, now)
    },
    tick: async () => {},
  }
  return play(scene, design)
}

/** Every process has its part of the quota, and asks nobody. */
export function localShare(scene: Scene): Promise<DesignOutcome> {
  const [limit] = parsePolicy(scene.policy)
  const share = { ...limit, quota: Math.floor(limit.quota / scene.processes) }
  const windows = Array.from({ length: scene.processes }, () => new CountedWindow(share))
  return play(scene, { calls: 0, hit: (process, hits, now) => windows[process].take(hits, now), tick: async () => {} })
}

/**
 * Every process decides by what it knew at the last exchange and what it granted since; all exchange their counts every
 * 100 ms.
 */
export function delayedSync(scene: Scene): Promise<DesignOutcome> {
  const [limit] = parsePolicy(scene.policy)
  const all = new CountedWindow(limit)
  const own = new Array<number>(scene.processes).fill(0)
  let known = 0
  const design: Design = {
    calls: 0,
    hit(process, hits, now) {
      const fits = Math.max(0, Math.min(hits, limit.quota - known - own[process]))
      own[process] += fits
      all.add(fits, now)
      return fits
    },
    async tick(now) {
      if (now % SYNC_MS !== 0) return
      known = all.count(now)
      own.fill(0)
      design.calls += scene.processes
    },
  }
  return play(scene, design)
}

/** A sliding window by ms. */
class CountedWindow {
  readonly #units: Float64Array
  #now = 0
  #sum = 0

  constructor(readonly limit: Limit) {
    this.#units = new Float64Array(limit.windowMs)
  }

  count(now: number): number {
    const { windowMs } = this.limit
    for (let at = Math.max(this.#now + 1, now - windowMs + 1); at <= now; at++) {
      this.#sum -= this.#units[at % windowMs]
      this.#units[at % windowMs] = 0
    }
    this.#now = now
    return this.#sum
  }

  add(units: number, now: number): void {
    this.count(now)
    this.#units[now % this.limit.windowMs] += units
    this.#sum += units
  }

  take(hits: number, now: number): number {
    const fits = Math.max(0, Math.min(hits, this.limit.quota - this.count(now)))
    this.add(fits, now)
    return fits
  }
}
