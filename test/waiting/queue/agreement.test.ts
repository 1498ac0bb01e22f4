import { expect, test } from '@jest/globals'
import { DelayQueue } from '../../../src/waiting/queue/delay-queue.js'
import type { Delivery } from '../../../src/waiting/queue/delivery.js'
import { randomFrom } from '../../support/random.js'
import { testRedis } from '../../support/test-redis.js'

const redis = testRedis()

const START = 1_700_000_000_000
const VISIBILITY_MS = 1000
const MOST_ATTEMPTS = 3

interface Message {
  readonly payload: number
  readonly priority: number
  readonly endsAt: number
  dueAt: number
  attempts: number
  /** The end of its visibility while it is delivered. */
  until?: number
}

/**
 * What a queue does, in a few lines: a list of messages, and a clock that goes on from where it was when the server's
 * is set back. Only a fetch takes messages back whose visibility has ended, and drops those whose ttl has.
 */
class Model {
  messages: Message[] = []
  dead = 0
  #last = 0
  #ahead = 0

  /** The time at the beginning of a call that changes the queue. */
  now(serverMs: number): number {
    const { now, ahead } = this.#clock(serverMs)
    this.#last = now
    this.#ahead = ahead
    return now
  }

  /** The messages that a call takes. */
  take(now: number, count: number): Message[] {
    for (const message of this.messages) {
      if (message.until === undefined || message.until > now) continue
      if (message.attempts >= MOST_ATTEMPTS) this.dead++
      else if (message.endsAt > now) {
        message.dueAt = message.until
        message.until = undefined
        continue
      }
      this.remove(message)
    }
    const due = this.messages.filter(({ until, dueAt }) => until === undefined && dueAt <= now)
    due.sort((a, b) => b.priority - a.priority || a.dueAt - b.dueAt || a.payload - b.payload)
    const taken: Message[] = []
    for (const message of due) {
      if (taken.length === count) break
      if (message.endsAt <= now) this.remove(message)
      else taken.push(message)
    }
    for (const message of taken) {
      message.attempts++
      message.until = now + VISIBILITY_MS
    }
    return taken
  }

  remove(message: Message): void {
    this.messages = this.messages.filter(other => other !== message)
  }

  stats(serverMs: number) {
    const { now, ahead } = this.#clock(serverMs)
    const waiting = this.messages.filter(({ until }) => until === undefined || until <= now)
    const later = waiting.filter(({ until, dueAt }) => until === undefined && dueAt > now)
    return {
      ready: waiting.length - later.length,
      delayed: later.length,
      unacked: this.messages.length - waiting.length,
      dead: this.dead,
      nextDueAt: later.length === 0 ? null : Math.min(...later.map(({ dueAt }) => dueAt - ahead)),
    }
  }

  #clock(serverMs: number): { now: number; ahead: number } {
    if (this.messages.length === 0) return { now: serverMs, ahead: 0 }
    const ahead = Math.max(this.#ahead, this.#last - serverMs)
    return { now: serverMs + ahead, ahead }
  }
}

test.each(['a', 'b', 'c', 'd', 'e', 'f'])(
  'a queue agrees with its model through random calls and steps of the clock (seed %s)',
  async seed => {
    const random = randomFrom(seed)
    const server = { nowMs: START }
    const queue = new DelayQueue<number>(redis.client(), `agreement-${seed}`, {
      clock: { now: () => server.nowMs },
      visibility: VISIBILITY_MS,
      maxAttempts: MOST_ATTEMPTS,
    })
    const model = new Model()
    const held: Array<[Delivery<number>, Message]> = []
    for (let step = 0; step < 300; step++) {
      const what = random.integer(0, 9)
      if (what < 3) {
        const [delay, priority] = [random.integer(0, 1500), random.integer(0, 2)]
        const ttl = random.integer(0, 2) === 0 ? random.integer(1, 3000) : undefined
        const now = model.now(server.nowMs)
        const endsAt = ttl === undefined ? Number.POSITIVE_INFINITY : now + ttl
        model.messages.push({ payload: step, priority, endsAt, dueAt: now + delay, attempts: 0 })
        await queue.push(step, { delay, priority, ttl })
      } else if (what < 5) {
        const count = random.integer(1, 4)
        const expected = model.take(model.now(server.nowMs), count)
        const got = await queue.receive({ count })
        expect(got.map(({ payload, attempt }) => [payload, attempt])).toEqual(
          expected.map(({ payload, attempts }) => [payload, attempts]),
        )
        for (const [i, delivery] of got.entries()) held.push([delivery, expected[i]])
      } else if (what < 7 && held.length > 0) {
        const [[delivery, message]] = held.splice(random.integer(0, held.length - 1), 1)
        const now = model.now(server.nowMs)
        const isHeld =
          model.messages.includes(message) && Number(message.until) > now && delivery.attempt === message.attempts
        const delay = random.integer(0, 500)
        const acks = random.integer(0, 1) === 0
        const settled = await (acks ? delivery.ack() : delivery.nack({ delay })).then(
          () => true,
          () => false,
        )
        expect(settled).toBe(isHeld)
        if (!isHeld) continue
        message.until = undefined
        message.dueAt = now + delay
        const isLast = message.attempts === MOST_ATTEMPTS
        if (acks || isLast || message.endsAt <= now) model.remove(message)
        if (!acks && isLast) model.dead++
      } else if (what < 9) {
        server.nowMs += random.integer(0, 400)
      } else {
        server.nowMs -= random.integer(0, 5000)
      }
      const expected = model.stats(server.nowMs)
      expect([step, await queue.stats()]).toEqual([step, expected])
      const { messages, overdueMs, paused, ...counts } = await queue.inspect({ limit: 1000 })
      expect({ ...counts, nextDueAt: expected.nextDueAt }).toEqual(expected)
      const listed = (state: string) => messages.items.filter(item => item.state === state)
      for (const state of ['ready', 'delayed', 'unacked', 'dead'] as const)
        expect([state, listed(state).length]).toEqual([state, counts[state]])
      const [one] = messages.items
      if (one !== undefined) expect((await queue.inspect({ id: one.id })).messages).toEqual({ items: [one], more: 0 })
    }
    await queue.close()
  },
)
