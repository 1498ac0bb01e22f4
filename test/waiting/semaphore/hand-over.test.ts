import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { portOf } from '../../../src/redis/clients.js'
import { runScript } from '../../../src/redis/script.js'
import { semaphoreAsk } from '../../../src/redis/scripts.js'
import { lineAnswer } from '../../../src/waiting/line/line-answer.js'
import { ofCases } from '../../support/cases.js'
import { answerParts, changesText } from '../../support/line-words.js'
import { randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const PERMITS = 5
const PARTS = ['', ':leases', ':facts', ':line', ':asks', ':meta', ':direct']
type Change = readonly [letter: string, tail: string, third: string, fourth: string]

const MEMBER = 'process/1.0'
/** Says that the process of the member holds leases without a fact. */
const NOTE = '&process/1'

/** A semaphore that one member asks. */
class Asked {
  readonly #keys: string[]
  #number = 0
  #stamp = ''
  /** Leases that are held, with their tokens. */
  readonly tokens = new Map<string, string>()

  constructor(readonly name: string) {
    this.#keys = PARTS.map(part => `spillway:{${name}}:semaphore${part}`)
  }

  async ask(first: string, changes: readonly Change[]): Promise<unknown[]> {
    const record = `spillway:{${this.name}}:semaphore:sent:${MEMBER}`
    const words = changes.flatMap(([letter, id, third, fourth]) => [
      letter,
      id,
      letter === 'e' && !id.startsWith('~') ? (this.tokens.get(id) ?? '') : third,
      fourth,
    ])
    const until = String(Number.MAX_SAFE_INTEGER)
    const asked = [MEMBER, String(++this.#number), this.#stamp, '', first, changesText(words), until]
    const args = ['', String(PERMITS), '-1', 'channel:', '0', ...asked]
    const text = await runScript(portOf(client, 'test'), semaphoreAsk, [...this.#keys, record, record], args)
    const reply = answerParts(text)
    this.#stamp = String(reply[1])
    reply[9] = lineAnswer(text, 2).granted.flatMap(({ number, facts }) => [number, ...facts.map(Number)])
    return reply
  }

  /** Makes the lifetimes of the line due: every ask then takes the general code. */
  async makeStale(): Promise<void> {
    if ((await client.exists(this.#keys[5])) === 1) await client.hset(this.#keys[5], 'fresh', '0')
  }

  /** The grants of an answer as Redis has stored them: number, token where there is a fact, and deadline. */
  async stored(grants: readonly number[], names: ReadonlyMap<number, string>) {
    const [, leases, facts] = this.#keys
    const found: unknown[] = []
    for (let at = 0; at < grants.length; at += 3) {
      const name = names.get(grants[at])!
      const token = name.startsWith('~') ? grants[at + 1] : Number((await client.hget(facts, name))?.split(' ')[2])
      found.push(grants[at], token, Number(await client.zscore(leases, name)))
    }
    return found
  }

  /** The whole state, except moments and numbers that follow the clock. */
  async state() {
    const [config, leases, facts, line, asks, meta] = this.#keys
    const held = Object.entries(await client.hgetall(facts))
    const names = (await client.zrange(leases, '0', '-1')).sort()
    return {
      permits: await client.hget(config, 'permits'),
      extra: await client.zscore(leases, '!extra'),
      leases: names.filter(name => name !== NOTE),
      // Without it the process would not hear that a lease without a fact was taken over.
      isNoted: names.includes(NOTE) || !names.some(name => name.startsWith('~')),
      facts: held.map(([id, fact]) => `${id} ${fact.replace(/ \d+$/, '')}`).sort(),
      line: await client.zrange(line, '0', '-1'),
      asks: (await client.zrange(asks, '0', '-1')).sort(),
      units: await client.hget(meta, 'units'),
      lifetimes: await Promise.all(
        [leases, facts, line, asks, meta].map(async key => (await client.pttl(key)) > 25_000),
      ),
    }
  }
}

/** What does not depend on the moment of asking. */
function outcome(reply: unknown[]) {
  const granted = (reply[9] as unknown[]).filter((_, i) => i % 3 === 0)
  const next = Number(reply[4])
  const untimed = [reply[0], Number(reply[6]) > 0, ...[5, 7, 8, 9].map(i => Number(reply[i]))]
  return { untimed, next: next > 1000 && next <= 1500 ? 'at the check' : next, granted, rest: reply.slice(10) }
}

async function existsCalls(): Promise<number> {
  return Number(/cmdstat_exists:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0)
}

const RUNS = ofCases(20)

test('the fast path for an ask at the head of the line does what the general code does', async () => {
  let short = 0
  for (let run = 0; run < RUNS; run++) {
    const random = randomFrom(`hand over ${run}`)
    const [one, other] = [new Asked(`short-${run}`), new Asked(`long-${run}`)]
    let waiting: string[] = []
    const leases: string[] = []
    const names = new Map<number, string>()
    let numbers = 0
    let newest = 0
    for (let i = 0; i < 60; i++) {
      const changes: Change[] = []
      for (let ends = random.integer(0, Math.min(3, leases.length)); ends > 0; ends--) {
        const [id] = leases.splice(random.integer(0, leases.length - 1), 1)
        changes.push(['e', id, '', ''])
        // A lease that has ended before, and one that is ended twice.
        if (random.integer(0, 19) === 0) changes.push(['e', id, '', ''])
      }
      if (random.integer(0, 9) === 0 && waiting.length > 0) {
        const [gone] = waiting.splice(random.integer(0, waiting.length - 1), 1)
        changes.unshift(['l', gone, '', ''])
      }
      const first = waiting[0] ?? ''
      const joins: string[] = []
      for (let more = waiting.length < 12 ? random.integer(0, 4) : 0; more > 0; more--) {
        const cost = random.pick([1, 1, 1, 1, 2, PERMITS, random.integer(1, PERMITS + 1)])
        // A lease of one permit has a fact or not; its length may differ from that of the one before.
        const mark = cost === 1 && random.integer(0, 2) > 0 ? '~' : ''
        const tail = `${numbers} ${cost} ${random.pick([30000, 30000, 30000, 40000])} ${mark}lease${numbers}`
        names.set(numbers++, `${mark}lease${tail.split(' ')[0]}`)
        changes.push(['j', tail, '', random.pick(['-1', '-1', '60000', '0'])])
        joins.push(tail)
      }
      await other.makeStale()
      const before = await existsCalls()
      const reply = await one.ask(first, changes)
      if ((await existsCalls()) === before) short++
      const expected = await other.ask(first, changes)
      expect(outcome(reply)).toEqual(outcome(expected))
      const state = await one.state()
      expect(state.isNoted).toBe(true)
      expect(state).toEqual(await other.state())
      const granted = reply[9] as number[]
      expect(await one.stored(granted, names)).toEqual(granted)
      const given = granted.filter((_, at) => at % 3 === 1)
      expect([newest, ...given].every((token, at, all) => at === 0 || token > all[at - 1])).toBe(true)
      newest = given.at(-1) ?? newest
      const leaving = new Set((expected[10] as unknown[]).filter((_, at) => at % 2 === 0).map(Number))
      for (const [which, { tokens }] of [one, other].entries()) {
        const grants = (which === 0 ? reply : expected)[9] as number[]
        for (let at = 0; at < grants.length; at += 3) tokens.set(names.get(grants[at])!, String(grants[at + 1]))
      }
      const grants = expected[9] as number[]
      for (let at = 0; at < grants.length; at += 3) {
        leaving.add(Number(grants[at]))
        leases.push(names.get(grants[at])!)
      }
      waiting = [...waiting, ...joins].filter(tail => !leaving.has(Number.parseInt(tail, 10)))
    }
  }
  // Otherwise this would compare the general code with itself.
  expect(short).toBeGreaterThan(15 * RUNS)
}, 60_000)
