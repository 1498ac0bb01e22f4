import { expect, test } from '@jest/globals'
import { LeaseBook } from '../../src/leases/leases.js'
import type { LeaseSeller } from '../../src/leases/seller.js'
import { type LeaseTerms, leaseTerms } from '../../src/leases/terms.js'
import type { Verdict } from '../../src/limiter/core/decision.js'
import { type Limit, parsePolicy } from '../../src/limiter/core/limit.js'
import type { Reply } from '../../src/limiter/port.js'
import { ofCases } from '../support/cases.js'
import { type Breach, Spending } from '../support/leases/spending.js'
import { type Random, randomFrom } from '../support/random.js'
import { type Message, SimulatedSeller, SimulatedServer } from './simulated-seller.js'

const SCHEDULES = ofCases(10_000)
const MOST_PROCESSES = 32
const POLICIES = [
  '60/1s',
  '400/1s',
  '60/1s token-bucket',
  '400/1s token-bucket burst=300',
  '60/1s fixed-window',
  '400/1s fixed-window',
  '60/1s sliding-counter',
  '400/1s sliding-counter',
  '400/1s; 60/400ms token-bucket name=short',
]

/** Processes that spend from one key by the real code, over a simulated server, and a network. */
class Schedule {
  readonly spending = new Spending()
  readonly terms: LeaseTerms
  readonly server: SimulatedServer
  readonly seller: LeaseSeller
  readonly messages: Message[]
  now = 1_000_000
  granted = 0
  #books: { book: LeaseBook; offset: number }[]
  readonly #crashed: LeaseBook[] = []
  #deferred: (() => void)[] = []

  constructor(
    readonly random: Random,
    readonly limits: readonly Limit[],
  ) {
    const terms = leaseTerms(limits, { ttlMs: undefined, strict: true, store: 'RedisStore' })
    if (terms === undefined) throw new Error('these limits are not leased')
    this.terms = terms
    this.server = new SimulatedServer(terms)
    const seller = new SimulatedSeller(this.server, () => Math.floor(this.now))
    this.seller = seller
    this.messages = seller.messages
    const processes = 2 + random.integer(0, MOST_PROCESSES - 2)
    this.#books = Array.from({ length: processes }, () => this.#process())
  }

  async run(steps: number): Promise<void> {
    for (let i = 0; i < steps; i++) {
      this.#step()
      for (const send of this.#deferred.splice(0)) send()
      await undefined
      await undefined
      await undefined
    }
  }

  end(): void {
    for (const { book } of this.#books) void book.close()
    // Their timers would keep them: no timer fires, because a schedule takes no turn of the event loop.
    for (const book of this.#crashed) void book.close()
  }

  /** The violations of the policy, by the server's clock. */
  breach(): Breach {
    const breaches = this.limits.map(({ algorithm, quota, windowMs, burst }) => {
      if (this.spending.total === 0) return { excess: 0, at: 0 }
      if (algorithm === 'token-bucket') return this.spending.inSpans(burst, quota, windowMs)
      if (algorithm === 'fixed-window') return this.spending.inOwnWindows(quota, windowMs, this.server.starts)
      if (algorithm === 'sliding-counter') return this.spending.inCells(quota, windowMs)
      return this.spending.inWindows(quota, windowMs)
    })
    return breaches.reduce((worst, breach) => (breach.excess > worst.excess ? breach : worst))
  }

  #step(): void {
    const { random } = this
    const dice = random.integer(0, 99)
    const process = this.#books[random.integer(0, this.#books.length - 1)]
    if (dice < 25) this.now += random.integer(0, 3)
    else if (dice < 30) this.now += random.integer(0, Math.round(this.terms.ttlMs * 1.5))
    // What was spent comes back after a window, or a lease later.
    else if (dice < 33) this.now += this.limits[0].windowMs - random.integer(0, 2 * this.terms.ttlMs)
    else if (dice < 36) this.#spree()
    else if (dice < 62) this.#ask(process.book, random.integer(1, 20))
    else if (dice < 90) this.#deliver()
    else if (dice < 92) this.#crash(process)
    else if (dice < 98) process.book.tidy()
    else void process.book.close()
  }

  #crash(process: { book: LeaseBook; offset: number }): void {
    this.#crashed.push(process.book)
    this.#books[this.#books.indexOf(process)] = this.#process()
  }

  /** Every process spends its leases and all remaining units at once. */
  #spree(): void {
    for (const { book } of this.#books) {
      while (book.spend('k', 1, book.now()) !== undefined) this.#spent(1)
    }
    while (this.server.spend(Math.floor(this.now))) this.#spent(1)
  }

  #deliver(): void {
    const { messages } = this
    if (messages.length === 0) return
    const place = this.random.integer(0, messages.length - 1)
    const message = messages[place]
    const dice = this.random.integer(0, 19)
    // It arrives, or its answer does, or both; once or twice, or never; or the call fails.
    if (dice > 0 && dice < 16) message.arrive()
    if (dice > 5) message.answer()
    if (dice < 2) message.fail()
    if (dice === 0 || dice > 7) messages.splice(place, 1)
  }

  #ask(book: LeaseBook, count: number): void {
    for (let i = 0; i < count; i++) {
      const cost = this.random.integer(0, 7) === 0 ? this.random.integer(1, 5) : 1
      if (book.spend('k', cost, book.now()) !== undefined) this.#spent(cost)
      else if (book.refusal('k', cost) === undefined) {
        const askedAt = Math.floor(this.now)
        const reply: Reply = {
          endsAt: Number.MAX_SAFE_INTEGER,
          resolve: (verdicts: readonly Verdict[]) => {
            // The server may have decided at any moment since.
            if (verdicts.every(({ allowed }) => allowed)) this.#spent(cost, askedAt)
          },
          reject: () => {},
        }
        if (!book.ask('k', cost, reply)) this.#decide(cost)
      }
    }
  }

  #decide(cost: number): void {
    if (cost === 1 && this.server.spend(Math.floor(this.now))) this.#spent(1)
  }

  #spent(units: number, askedAt = Math.floor(this.now)): void {
    this.granted += units
    this.spending.add(askedAt, Math.floor(this.now), units)
  }

  /** Each process counts by a clock of its own. */
  #process(): { book: LeaseBook; offset: number } {
    const offset = this.random.integer(0, 100_000)
    const book = new LeaseBook({
      terms: this.terms,
      seller: this.seller,
      now: () => this.now + offset,
      defer: send => this.#deferred.push(send),
      decide: (_, cost) => this.#decide(cost),
      busy: new Set(),
    })
    return { book, offset }
  }
}

test('under every schedule of delays, losses, repeats, crashes and pauses, up to 32 processes never exceed a limit', async () => {
  let granted = 0
  for (let i = 0; i < SCHEDULES; i++) {
    const random = randomFrom(String(i))
    const policy = POLICIES[i % POLICIES.length]
    const schedule = new Schedule(random, parsePolicy(policy))
    await schedule.run(random.integer(20, 80))
    schedule.end()
    const { excess, at } = schedule.breach()
    if (excess > 0) throw new Error(`schedule ${i}, ${policy}: ${excess} too many at ${at}`)
    granted += schedule.granted
  }
  expect(granted).toBeGreaterThan(SCHEDULES)
}, 3_600_000)
