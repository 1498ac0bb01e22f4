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
 * is set back.
 */
class Model {
  messages: Message[] = []
  dead = 0
  #last = 0
  #ahead = 0

  /** The time, at the beginning of each call; visibilities end by it. */
  now(serverMs: number): number {
    if (this.messages.length === 0) this.#last = this.#ahead = 0
    this.#ahead = Math.max(this.#ahead, this.#last - serverMs)
    this.#last = serverMs + this.#ahead
    for (const message of this.messages) {
      if (message.until === undefined || message.until > this.#last) continue
      message.dueAt = message.until
      message.until = undefined
      if (message.attempts < MOST_ATTEMPTS) continue
      this.messages = this.messages.filter(other => other !== message)
      this.dead++
    }
    this.messages = this.messages.filter(({ until, endsAt }) => until !== undefined || endsAt > this.#last)
    return this.#last
  }

  /** The messages that a call takes. */
  take(now: number, count: number): Message[] {
    const due = this.messages.filter(({ until, dueAt }) => until === undefined && dueAt <= now)
    due.sort((a, b) => b.priority - a.priority || a.dueAt - b.dueAt || a.payload - b.payload)
    for (const message of due.slice(0, count)) {
      message.attempts++
      message.until = now + VISIBILITY_MS
    }
    return due.slice(0, count)
  }

  stats(now: number) {
    const waiting = this.messages.filter(({ until }) => until === undefined)
    const later = waiting.filter(({ dueAt }) => dueAt > now).map(({ dueAt }) => dueAt - this.#ahead)
    return {
      ready: waiting.length - later.length,
      delayed: later.length,
      unacked: this.messages.length - waiting.length,
      dead: this.dead,
      nextDueAt: later.length === 0 ? null : Math.min(...later),
    }
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
          model.messages.includes(message) && message.until !== undefined && delivery.attempt === message.attempts
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
        if (acks || isLast) model.messages = model.messages.filter(other => other !== message)
        if (!acks && isLast) model.dead++
      } else if (what < 9) {
        server.nowMs += random.integer(0, 400)
      } else {
        server.nowMs -= random.integer(0, 5000)
      }
      const expected = model.stats(model.now(server.nowMs))
      expect([step, await queue.stats()]).toEqual([step, expected])
    }
    await queue.close()
  },
)
