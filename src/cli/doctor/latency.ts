import type { Connection } from '../redis-connection.js'
import { ReplyError } from '../redis-connection.js'
import { type Finding, ok, problem, unseen, warning } from './finding.js'

const MOST_PINGS = 200
const LONGEST_MS = 1000
/** The default deadline of a `RateLimiter`. */
const DEADLINE_MS = 50
/** A clock difference from which on to warn: times in headers are wrong by as much. */
const CLOCK_MS = 1000

/** The duration of a round trip, from many samples. */
export async function latencyFinding(connection: Connection): Promise<Finding> {
  const rounds: number[] = []
  const end = performance.now() + LONGEST_MS
  while (rounds.length < MOST_PINGS && performance.now() < end) {
    const askedAt = performance.now()
    // An error answer counts too: it takes as long.
    await connection.ask('PING')
    rounds.push(performance.now() - askedAt)
  }
  rounds.sort((a, b) => a - b)
  const [p50, p99] = [rounds[Math.floor(rounds.length * 0.5)], rounds[Math.floor(rounds.length * 0.99)]]
  const text = `PING takes ${p50.toFixed(1)} ms (p50), ${p99.toFixed(1)} ms (p99) of the ${DEADLINE_MS} ms that a decision may`
  const remedy = 'bring the processes closer to Redis, or give the limiter a longer deadline'
  if (p50 >= DEADLINE_MS) return problem('latency', `${text}: onStoreFailure answers most decisions`, remedy)
  if (p99 >= DEADLINE_MS) return warning('latency', `${text}: onStoreFailure answers some decisions`, remedy)
  if (p99 >= DEADLINE_MS / 2) return warning('latency', `${text}: little margin is left`, remedy)
  return ok('latency', text)
}

/** Compares the server's clock, which all decisions use, with the clock of this process. */
export async function clockFinding(connection: Connection): Promise<Finding> {
  const askedAt = Date.now()
  const reply = await connection.ask('TIME')
  const answeredAt = Date.now()
  if (!Array.isArray(reply)) return unseen('clock', refusal(reply), 'allow TIME: every script asks it')
  const there = Number(reply[0]) * 1000 + Number(reply[1]) / 1000
  const apart = there < askedAt ? there - askedAt : Math.max(0, there - answeredAt)
  const text = `${Math.abs(apart) < 1 ? 'agrees with' : `${Math.abs(apart).toFixed(0)} ms ${apart < 0 ? 'behind' : 'ahead of'}`} this machine's`
  if (Math.abs(apart) <= CLOCK_MS) return ok('clock', text)
  return warning(
    'clock',
    `${text}: decisions go by the server's and stay right, but moments that you compute here (at, dueAt, expiresAt) are off`,
    'synchronize both with NTP',
  )
}

/** Recent commands that blocked the server. */
export async function slownessFinding(connection: Connection): Promise<Finding> {
  const reply = await connection.ask('SLOWLOG', 'GET', 128)
  if (!Array.isArray(reply)) return unseen('slowness', refusal(reply), 'allow SLOWLOG GET')
  const hourAgo = Date.now() / 1000 - 3600
  const slow = reply.flatMap(entry => {
    if (!Array.isArray(entry) || Number(entry[1]) < hourAgo) return []
    const ms = Number(entry[2]) / 1000
    return ms >= DEADLINE_MS ? [{ ms, command: Array.isArray(entry[3]) ? String(entry[3][0]) : '?' }] : []
  })
  if (slow.length === 0) return ok('slowness', `no command of the last hour is known to have taken ${DEADLINE_MS} ms`)
  const worst = slow.reduce((a, b) => (b.ms > a.ms ? b : a))
  return warning(
    'slowness',
    `${slow.length} commands of the last hour took ${DEADLINE_MS} ms or more, the longest ${worst.ms.toFixed(0)} ms (${worst.command}): ` +
      'everybody waits meanwhile',
    'SLOWLOG GET tells which; KEYS, large deletions and long scripts belong on another server',
  )
}

function refusal(reply: unknown): string {
  return reply instanceof ReplyError ? reply.message : 'an answer that the doctor does not understand'
}
