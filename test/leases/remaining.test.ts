import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { Redis as HttpRedis } from '@upstash/redis'
import type { Redis } from 'ioredis'
import { RedisStore } from '../../src/index.js'
import type { Decision } from '../../src/limiter/core/decision.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { change, leaseBuy } from '../../src/redis/scripts.js'
import { ManualClock } from '../../src/testing.js'
import { forCases } from '../support/cases.js'
import { RestFront } from '../support/rest-front.js'
import { START } from '../support/stories.js'
import { testRedis } from '../support/test-redis.js'

const redis = testRedis()
let client: Redis
let prefixes = 0
beforeAll(() => {
  client = redis.client()
})

const QUOTA = 50_000

/** A process alone, and a check of every answer to it. */
class Alone {
  readonly clock = new ManualClock(START)
  readonly limiter: RateLimiter
  spent = 0
  /** No answer may say more than the one before, but for what came back since, or will. */
  most = QUOTA
  comesBack = 0
  leased = 0

  constructor(policy: string, by: RedisClient = client) {
    const store = new RedisStore(by, { clock: this.clock, prefix: `alone ${prefixes++}`, leases: { ttl: '1s' } })
    this.limiter = new RateLimiter({ policy, store, deadline: '30s', observer: this })
  }

  leaseExpired({ units }: { units: number }): void {
    this.comesBack += units
  }

  /** Notes decisions in the order in which they were answered. */
  read(decision: Decision): Decision {
    if (decision.source === 'lease') this.leased++
    if (decision.allowed) this.spent += decision.cost
    expect(decision.remaining).toBeLessThanOrEqual(QUOTA - this.spent)
    const rise = Math.max(0, decision.remaining - this.most)
    expect(rise).toBeLessThanOrEqual(this.comesBack)
    this.comesBack -= rise
    this.most = decision.remaining
    return decision
  }

  async consume(cost: number): Promise<Decision> {
    const decision = this.limiter.decide('k', cost)
    return this.read(decision instanceof Promise ? await decision : decision)
  }

  async settle(decision: Decision, actual: number): Promise<void> {
    await this.limiter.settle(decision, actual)
    this.spent += actual - decision.cost
    this.comesBack += Math.max(0, decision.cost - actual)
  }
}

describe.each(['fixed-window', 'sliding-counter', 'sliding-window'])(
  'of one process alone under %s, remaining',
  algorithm => {
    test('never rises, and never exceeds what it left of the quota, with two leases at once', async () => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      for (let i = 0; i < 400; i++) {
        for (const cost of [1, 2, 3, 1, 2, 3]) await alone.consume(cost)
        // The purchases that were sent meanwhile are answered.
        await new Promise(setImmediate)
        if (i % 40 === 39) alone.clock.advance(100)
      }
      expect(alone.leased).toBeGreaterThan(1000)
    })

    test.each([
      ['acquire', async ({ limiter }: Alone) => limiter.acquire('k', { cost: 500 })],
      ['most of the quota at once', async ({ limiter }: Alone) => limiter.consume('k', QUOTA - 600)],
      ['consumeUpTo', async ({ limiter }: Alone) => limiter.consumeUpTo('k', QUOTA - 600)],
    ])('knows what Redis told it later, by %s', async (_, directly) => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      for (let i = 0; i < 40; i++) await alone.consume(1)
      expect(alone.leased).toBeGreaterThan(10)
      expect(alone.read(await directly(alone)).allowed).toBe(true)
      for (let i = 0; i < 40; i++) await alone.consume(1)
    })

    test('knows what a settlement added', async () => {
      const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
      let decision = await alone.consume(1)
      for (let i = 0; i < 20; i++) decision = await alone.consume(1)
      expect(decision.source).toBe('lease')
      await alone.settle(decision, 500)
      for (let i = 0; i < 40; i++) await alone.consume(1)
    })

    test('never rises without a reason, and never exceeds what is left of the quota, with random costs, settlements and pauses', () =>
      forCases(20, `remaining ${algorithm}`, async random => {
        const alone = new Alone(`${QUOTA}/1h ${algorithm}`)
        let last: Decision | undefined
        for (let step = 0; step < 300; step++) {
          const dice = random.integer(0, 99)
          if (dice < 80) last = await alone.consume(random.integer(1, 3))
          else if (dice < 83) alone.read(await alone.limiter.acquire('k', { cost: random.integer(1, 100) }))
          else if (dice < 90 && last?.allowed) {
            await alone.settle(last, random.integer(0, last.cost + 3))
            last = undefined
          } else if (dice < 94) await new Promise(setImmediate)
          else alone.clock.advance(random.pick([1, 50, 300, 1000]))
        }
      }))
  },
)

test('the requests that wait for one purchase are told what is left beside both leases, each less than the one before', async () => {
  const alone = new Alone(`${QUOTA}/1h fixed-window`)
  for (let i = 0; i < 20; i++) await alone.consume(1)
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => alone.limiter.consume('k', 1 + (i % 3))))
  for (const decision of all) {
    expect(decision.allowed).toBe(true)
    alone.spent += decision.cost
  }
  const told = all.map(({ remaining }) => remaining)
  expect(Math.min(...told)).toBe(QUOTA - alone.spent)
  expect(new Set(told).size).toBe(told.length)
})

/**
 * A client that may keep what Redis answers, until all of it is read at once, in order: as if it had come in one
 * packet.
 */
class PacketClient {
  /** Scripts that were sent and not answered. */
  inFlight = 0
  #kept: (() => void)[] | undefined
  readonly client: Redis = Object.create(client, {
    evalsha: { value: (...args: Parameters<Redis['evalsha']>) => this.#sent(client.evalsha(...args)) },
    eval: { value: (...args: Parameters<Redis['eval']>) => this.#sent(client.eval(...args)) },
  })

  /** Keeps what is answered from now on. */
  async keep(): Promise<void> {
    await this.untilAnswered()
    this.#kept = []
  }

  async untilAnswered(): Promise<void> {
    do await new Promise(setImmediate)
    while (this.inFlight > 0)
  }

  async untilSent(scripts: number): Promise<void> {
    while (this.inFlight < scripts) await new Promise(setImmediate)
  }

  /** Reads all answers once Redis has given them. */
  async read(): Promise<void> {
    const kept = this.#kept!
    while (kept.length < this.inFlight) await new Promise(setImmediate)
    this.#kept = undefined
    for (const answer of kept) this.#answered(answer)
  }

  #sent(answer: Promise<unknown>): Promise<unknown> {
    this.inFlight++
    return new Promise((resolve, reject) => {
      answer.then(
        reply => this.#answered(() => resolve(reply)),
        error => this.#answered(() => reject(error)),
      )
    })
  }

  #answered(answer: () => void): void {
    if (this.#kept !== undefined) this.#kept.push(answer)
    else {
      this.inFlight--
      answer()
    }
  }
}

describe('remaining is exact when a process alone', () => {
  const POLICY = `${QUOTA}/20s fixed-window`
  /** No lease may be so large, so that Redis decides. */
  const DIRECT = 47_501
  let packets: PacketClient
  let alone: Alone
  let leased: Decision

  /** The next decision tells just what is left. */
  async function expectExact(): Promise<void> {
    const decision = await alone.consume(1)
    expect(decision.source).toBe('lease')
    expect(decision.remaining).toBe(QUOTA - alone.spent)
  }

  /** Spends from the lease until the next one is being bought. */
  async function untilBuying(): Promise<void> {
    for (const before = packets.inFlight; packets.inFlight === before; ) {
      leased = await alone.consume(1)
      await new Promise(setImmediate)
    }
  }

  beforeAll(() => {
    packets = new PacketClient()
  })

  beforeEach(async () => {
    alone = new Alone(POLICY, packets.client)
    const other = await alone.limiter.acquire('other')
    await alone.limiter.settle(other, 2)
    for (let i = 0; i < 20; i++) leased = await alone.consume(1)
    await expectExact()
  })

  /** Sends something, and gives its answer, and what it says of what is left, if anything. */
  const SEND: Record<string, () => Promise<unknown>> = {
    'a purchase': async () => untilBuying(),
    'a decision of Redis': async () => alone.limiter.consume('k', DIRECT),
    'a peek': async () => alone.limiter.peek('k', 0),
    'a grant of acquire': async () => alone.limiter.acquire('k', { cost: 500 }),
    'a settlement': async () => alone.settle(leased, 501),
  }

  test.each([
    ['a purchase', 'a decision of Redis'],
    ['a purchase', 'a peek'],
    ['a purchase', 'a grant of acquire'],
    ['a grant of acquire', 'a purchase'],
    ['a grant of acquire', 'a settlement'],
    ['a settlement', 'a grant of acquire'],
    ['a purchase', 'a settlement'],
  ])('reads %s and then %s at once', async (...both) => {
    await packets.keep()
    const answers: Promise<unknown>[] = []
    for (const one of both) {
      answers.push(SEND[one]())
      await packets.untilSent(answers.length)
    }
    await packets.read()
    const [first, second] = await Promise.all(answers)
    for (const decision of [first, second] as Array<Decision | undefined>) {
      if (decision === undefined) continue
      if (decision.cost > 0) alone.read(decision)
      expect(decision.remaining).toBe(QUOTA - alone.spent)
    }
    await expectExact()
  })

  test('buys while it settles, and the purchase is carried out last, because the server did not know its script', async () => {
    await packets.untilAnswered()
    await client.script('FLUSH')
    await client.script('LOAD', change.source)
    await untilBuying()
    await alone.settle(leased, 501)
    await packets.untilAnswered()
    await expectExact()
  })

  test('settles while the key is not busy, and the settlement is carried out after the first purchase, because the server did not know its script', async () => {
    alone = new Alone(POLICY, packets.client)
    let decision = await alone.consume(1)
    // One short of eight in a ttl, which are a busy key.
    for (let hits = 1; hits < 7; hits++) decision = await alone.consume(1)
    await packets.untilAnswered()
    await client.script('FLUSH')
    await client.script('LOAD', leaseBuy.source)
    const settled = alone.settle(decision, 501)
    expect((await alone.consume(1)).source).toBe('lease')
    await settled
    await expectExact()
  })

  test('settles and then asks Redis, and the settlement is carried out last, because the server did not know its script', async () => {
    await client.script('FLUSH')
    // The server learns the script of the decision.
    await alone.limiter.consume('other')
    const settled = alone.settle(leased, 501)
    const direct = alone.consume(DIRECT)
    await Promise.all([settled, direct])
    await expectExact()
  })
})

describe('over HTTP, where answers may cross, remaining is exact when a process alone', () => {
  let front: RestFront
  beforeAll(async () => {
    front = await RestFront.start(redis)
  })
  afterAll(() => front.stop())

  /** Holds the answers of requests with this word, until `release`. Resolves when the first is carried out. */
  function holding(word: string): { readonly release: () => void; readonly isHeld: Promise<void> } {
    let release = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    const isHeld = new Promise<void>(resolve => {
      front.delay = ({ commands }) => {
        if (!commands.some(words => words.includes(word))) return undefined
        resolve()
        return held
      }
    })
    return { release: () => release(), isHeld }
  }

  test.each([
    ['settles, and hears of a later decision first', true],
    ['asks Redis, and hears of a later settlement first', false],
  ])('%s', async (_, settlesFirst) => {
    const alone = new Alone(`${QUOTA}/20s fixed-window`, new HttpRedis({ ...front.access, enableTelemetry: false }))
    // The server learns the script of settlements.
    await alone.limiter.settle(await alone.limiter.consume('other'), 2)
    let leased = await alone.consume(1)
    while (leased.source !== 'lease') leased = await alone.consume(1)
    // More than a lease may hold, so that Redis decides it; of all calls, only this one says so many.
    const DIRECT = 47_501
    const settle = () => alone.settle(leased, 501)
    const decide = async () => {
      await alone.limiter.consume('k', DIRECT)
      alone.spent += DIRECT
    }
    const { release, isHeld } = holding(settlesFirst ? 'charge' : String(DIRECT))
    const first = settlesFirst ? settle() : decide()
    await isHeld
    alone.clock.advance(1)
    await (settlesFirst ? decide() : settle())
    release()
    await first
    const next = await alone.consume(1)
    expect(next.source).toBe('lease')
    expect(next.remaining).toBe(QUOTA - alone.spent)
  })
})
