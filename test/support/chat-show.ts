import { setTimeout as sleep } from 'node:timers/promises'
import { ChatPartner } from './chat-partner.js'
import type { Chat, Chatted } from './chat-worker.js'
import { Child } from './child.js'
import { RedisServer } from './redis-server.js'

const CALLS = 500
const TOKENS = 200_000
const INTERVAL_MS = 2000

export interface ChatShow {
  /** Calls that the partner has refused. */
  readonly refused: number
  /**
   * The share of the partner's tokens that was used: as an average over time of what it has counted in an interval,
   * from an interval after the first call (or the kill) until calls run out.
   */
  readonly used: number
  /** The same until the kill. */
  readonly usedBefore: number
  readonly seconds: number
  /** What the processes tell that were not killed. */
  readonly chatted: readonly Chatted[]
}

/**
 * Processes that share one Redis make so many calls each to a ChatPartner, all at once. `killAfterMs`: the first
 * process is killed then.
 */
export async function chatShow(processes: number, count: number, killAfterMs?: number): Promise<ChatShow> {
  const redis = await RedisServer.start()
  const partner = new ChatPartner(CALLS, TOKENS, INTERVAL_MS)
  const { url, close } = await partner.listen()
  const workers = await Child.startAll(processes, "import './test/support/chat-worker.ts'", [redis.url])
  try {
    const chat = (worker: Child, i: number) => {
      const what = { url, count, calls: CALLS, tokens: TOKENS, intervalMs: INTERVAL_MS }
      return worker.ask<Chatted>({ ...what, seed: `worker ${i}` } satisfies Chat)
    }
    const all = workers.map(chat)
    let killedAt = Number.NaN
    if (killAfterMs !== undefined) {
      await sleep(killAfterMs)
      killedAt = performance.now()
      all[0].catch(() => {})
      workers[0].kill()
    }
    const chatted = await Promise.all(killAfterMs === undefined ? all : all.slice(1))
    const first = partner.passed[0].at + INTERVAL_MS
    const from = killAfterMs === undefined ? first : killedAt + INTERVAL_MS
    const to = partner.passed[partner.passed.length - 200].at
    return {
      refused: partner.refused,
      used: partner.usedShare(from, to),
      usedBefore: partner.usedShare(first, killedAt),
      seconds: (to - from) / 1000,
      chatted,
    }
  } finally {
    for (const worker of workers) worker.kill()
    close()
    await redis.stop()
  }
}
