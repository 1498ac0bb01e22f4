import { beforeAll, expect, test } from '@jest/globals'
import type { Redis } from 'ioredis'
import { semaphoreAsk, semaphoreLook, semaphoreTake } from '../../../src/redis/scripts.js'
import { newLeaseName } from '../../../src/waiting/semaphore/lease-name.js'
import { changesText } from '../../support/line-words.js'
import { randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()
let client: Redis
beforeAll(() => {
  client = redis.client()
})

const PERMITS = 5
const SCHEDULES = 140
// A process that was told counts as dead after 900 ms: a schedule must be over by then.
const STEPS = 25
const CHANNEL = 'spillway!turns:'
const NEVER_LATE = String(Number.MAX_SAFE_INTEGER)

/** What a semaphore is to be, said without its scripts. */
class Oracle {
  readonly held = new Map<string, number>()
  /** Names that a copy of their take finds, although the lease has ended. */
  readonly left = new Set<string>()
  readonly line: { name: string; permits: number; member: string }[] = []

  get used(): number {
    return [...this.held.values()].reduce((sum, permits) => sum + permits, 0)
  }

  /** 'granted', 'again', 'full' or 'refused'. */
  take(name: string, permits: number): string {
    if (this.line.length > 0) return 'refused'
    if (this.held.has(name)) return 'again'
    if (this.left.has(name)) return 'refused'
    if (this.used + permits > PERMITS) return 'full'
    this.held.set(name, permits)
    return 'granted'
  }

  /** Which of the asker's waiters are granted: those that fit beside all who stand before them and fit, too. */
  walk(member: string): string[] {
    const granted: string[] = []
    let ahead = 0
    for (const waiter of [...this.line]) {
      if (this.used + ahead + waiter.permits > PERMITS) break
      if (waiter.member !== member) ahead += waiter.permits
      else {
        this.held.set(waiter.name, waiter.permits)
        this.line.splice(this.line.indexOf(waiter), 1)
        granted.push(waiter.name)
      }
    }
    return granted
  }
}

/** A process as the scripts see it. */
class Member {
  asked = 0
  stamp = ''
  next = 0
  readonly waiting = new Map<number, string>()

  constructor(
    readonly id: string,
    readonly keys: readonly string[],
  ) {}

  /** Sends changes; resolves to the names that were granted, and the results of the ends. */
  async ask(words: string[]): Promise<{ granted: string[]; ended: number[] }> {
    const [first] = this.waiting
    const firstInLine = first === undefined ? '' : waiterText(first[0], first[1])
    const args = ['', String(PERMITS), '-1', CHANNEL, '0', this.id, String(this.asked + 1), this.stamp, '', firstInLine]
    const record = `${this.keys[0]}:sent:${this.id}`
    const keys = [...this.keys, record, record]
    const all = [...keys, ...args, changesText(words), NEVER_LATE]
    const reply = String(await client.eval(semaphoreAsk.source, keys.length, ...all))
    const [head, grants, , changes] = reply.split(',')
    const [code, stamp] = head.split(' ')
    expect(code).toBe('1')
    this.asked++
    this.stamp = stamp
    const granted: string[] = []
    const numbers = grants === '' ? [] : grants.split(' ').map(Number)
    for (let i = 0; i < numbers.length; i += 3) {
      granted.push(this.waiting.get(numbers[i])!)
      this.waiting.delete(numbers[i])
    }
    return { granted, ended: changes === '' ? [] : changes.split(' ').map(Number) }
  }
}

const permitsOf = (name: string) => Number(name.split('.')[0])
const waiterText = (number: number, name: string) => `${number} ${permitsOf(name)} 30000 ${name}`

test('takes, their late copies, releases and asks in any order do what a semaphore of a few lines does', async () => {
  const random = randomFrom('semaphore schedules')
  let [copies, granted, waited] = [0, 0, 0]
  for (let schedule = 0; schedule < SCHEDULES; schedule++) {
    const base = `spillway:{schedule-${schedule}}:semaphore`
    const keys = [base, ...['open', 'held', 'line', 'asks', 'meta'].map(part => `${base}:${part}`)]
    const [, open, held] = keys
    const oracle = new Oracle()
    const members = [0, 1, 2].map(i => new Member(`process${i}/1.0`, keys))
    const taken: string[] = []
    const pick = <T>(list: readonly T[]) => list[random.integer(0, list.length - 1)]
    const send = async (name: string) => {
      const args = ['30000', NEVER_LATE, '', String(PERMITS), '-1', name]
      const reply = await client.eval(semaphoreTake.source, 3, open, held, base, ...args)
      const isOld = oracle.held.has(name)
      const said = reply === 0 ? 'refused' : reply === -1 ? 'full' : isOld ? 'again' : 'granted'
      expect(said).toBe(oracle.take(name, permitsOf(name)))
      if (said === 'granted') granted++
    }
    for (let step = 0; step < STEPS; step++) {
      const member = pick(members)
      const wide = random.integer(1, 4) === 1 ? random.integer(2, 3) : 1
      const act = random.integer(1, 10)
      if (act <= 3) {
        const name = newLeaseName(wide, 'process/1')
        taken.push(name)
        await send(name)
      } else if (act === 4 && taken.length > 0) {
        // A copy of some take: it counts only if its lease has ended and its name was not left.
        const name = pick(taken)
        if (!oracle.held.has(name) && !oracle.left.has(name)) continue
        copies++
        await send(name)
      } else if (act <= 6 && oracle.held.size > 0) {
        const name = pick([...oracle.held.keys()])
        if (permitsOf(name) > 1) continue
        const count = await client.zrem(open, name)
        expect(count).toBe(oracle.line.length > 0 ? 0 : 1)
        if (count === 1) oracle.held.delete(name)
      } else if (act <= 8 && oracle.held.size > 0) {
        const name = pick([...oracle.held.keys(), newLeaseName(1, 'process/1')])
        const leaves = random.integer(1, 2) === 1
        const { granted: gifts, ended } = await member.ask(['e', name, leaves ? '1' : '', ''])
        expect(ended).toEqual([oracle.held.delete(name) ? 1 : 0])
        if (leaves) oracle.left.add(name)
        expect(gifts).toEqual(oracle.walk(member.id))
      } else {
        const name = newLeaseName(wide, 'process/1')
        const number = member.next++
        member.waiting.set(number, name)
        const { granted: gifts } = await member.ask(['j', waiterText(number, name), '', '-1'])
        oracle.line.push({ name, permits: wide, member: member.id })
        expect(gifts).toEqual(oracle.walk(member.id))
        if (member.waiting.has(number)) waited++
      }
      // The table has the name that the line asks for, and counts what the oracle counts.
      const [permits, used] = (await client.eval(
        semaphoreLook.source,
        6,
        ...keys,
        '',
        String(PERMITS),
        '-1',
        CHANNEL,
        '0',
      )) as number[]
      expect([permits, used]).toEqual([PERMITS, oracle.used])
      expect(await client.exists(oracle.line.length > 0 ? open : held)).toBe(0)
    }
  }
  expect(Math.min(copies, granted, waited)).toBeGreaterThan(100)
}, 60_000)
