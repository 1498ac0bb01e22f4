// One process of a fleet: asks so often under each policy, and writes what it was answered to stdout, a line each ms:
// which policy, when it asked, when it was answered (ms by the machine's clock, which is the server's), how many were
// allowed, decided, and decided by the failure policy. Written at once, so that a process that is killed has told what
// it spent. It begins at the moment that it reads from stdin once it has written "ready".
//
//   node buyer.mjs
//   '{"port":6379,"leases":true,"key":"k","forMs":5000,"runs":[{"policy":"100/1s","prefix":"x","perSecond":200,"phase":0.5}]}'
import { once } from 'node:events'
import { writeSync } from 'node:fs'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../dist/index.mjs'

const { port, leases, key, forMs, runs } = JSON.parse(process.argv[2])
const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 0 })
client.on('error', () => {})
const observer = { storeFailed() {} }
await once(client, 'ready')
const buyers = await Promise.all(
  runs.map(async (/** @type {{ policy: string, prefix: string, perSecond: number, phase: number }} */ run) => {
    const { policy, prefix, perSecond, phase } = run
    const store = new RedisStore(client, { prefix, leases })
    // Long enough that a busy machine is not taken for an outage.
    const limiter = new RateLimiter({ policy, store, observer, onStoreFailure: 'closed', deadline: '1s' })
    await warmUp(limiter)
    return { store, limiter, perSecond, phase, asked: 0, open: 0, fromLeases: 0 }
  }),
)
/** @type {Map<string, number[]>} */
const answers = new Map()
write('ready\n')
const [line] = await once(process.stdin, 'data')
process.stdin.destroy()
const startsAt = Math.max(Date.now(), Number(line))
await new Promise(resolve => setTimeout(resolve, startsAt - Date.now()))
turn()

/**
 * Decides other keys until V8 has compiled the code: sixteen processes that compile at the moment when they begin would
 * ask late.
 *
 * @param {RateLimiter} limiter
 */
async function warmUp(limiter) {
  for (let i = 0; i < 300; i++) await limiter.consume(`warm ${i % 20}`)
}

/** @param {string} text */
function write(text) {
  for (;;) {
    try {
      writeSync(1, text)
      return
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error
    }
  }
}

function turn() {
  const now = Date.now()
  for (const [run, buyer] of buyers.entries()) ask(run, buyer, now)
  if (now < startsAt + forMs) setTimeout(turn, nextDue() - Date.now())
  else end()
}

/**
 * When the next request is due. A process that woke each ms for nothing would leave a small machine no time for the
 * others.
 */
function nextDue() {
  const dues = buyers.map(({ asked, perSecond, phase }) => startsAt + ((asked + 1 - phase) * 1000) / perSecond)
  return Math.min(startsAt + forMs, Math.ceil(Math.min(...dues)))
}

/**
 * Answers that come together are written together, in the same turn: a line for each ms in which they were asked.
 *
 * @param {number} run @param {number} askedAt @param {{ allowed: boolean, degraded: boolean }} decision
 */
function tell(run, askedAt, { allowed, degraded }) {
  if (answers.size === 0) queueMicrotask(writeAnswers)
  const name = `${run} ${askedAt}`
  const sums = answers.get(name) ?? [0, 0, 0]
  answers.set(name, sums)
  if (allowed) sums[0]++
  sums[1]++
  if (degraded) sums[2]++
}

function writeAnswers() {
  const answeredAt = Date.now()
  let text = ''
  for (const [name, sums] of answers) text += `${name} ${answeredAt} ${sums.join(' ')}\n`
  answers.clear()
  write(text)
}

/** @param {number} run @param {typeof buyers[number]} buyer @param {number} now */
function ask(run, buyer, now) {
  const { limiter, perSecond, phase } = buyer
  const due = Math.floor(((Math.min(now, startsAt + forMs) - startsAt) * perSecond) / 1000 + phase)
  // A process that was stopped does not catch up.
  buyer.asked = Math.max(buyer.asked, due - Math.max(20, perSecond / 10))
  let at = now
  let allowed = 0
  let decided = 0
  let degraded = 0
  while (buyer.asked < due) {
    buyer.asked++
    const answer = limiter.decide(key)
    if (answer instanceof Promise) {
      buyer.open++
      const askedAt = Date.now()
      answer.then(decision => {
        buyer.open--
        if (decision.source === 'lease' && decision.allowed) buyer.fromLeases++
        tell(run, askedAt, decision)
      })
      continue
    }
    const then = Date.now()
    if (then !== at) {
      if (decided > 0) write(`${run} ${at} ${then} ${allowed} ${decided} ${degraded}\n`)
      at = then
      allowed = 0
      decided = 0
      degraded = 0
    }
    decided++
    if (answer.degraded) degraded++
    if (answer.allowed) {
      allowed++
      if (answer.source === 'lease') buyer.fromLeases++
    }
  }
  if (decided > 0) write(`${run} ${at} ${Date.now()} ${allowed} ${decided} ${degraded}\n`)
}

async function end() {
  while (buyers.some(({ open }) => open > 0)) await new Promise(resolve => setTimeout(resolve, 5))
  for (const { limiter, store } of buyers) {
    await limiter.close()
    await store.close()
  }
  write(`end ${JSON.stringify(buyers.map(({ fromLeases }) => fromLeases))}\n`)
  client.disconnect()
}
