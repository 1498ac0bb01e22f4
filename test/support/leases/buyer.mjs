// One process of a fleet: asks so often, and writes what it was allowed to stdout, a line a turn: when it asked, when it was answered (ms by the
// machine's clock, which is the server's), how many. Written at once, so that a process that is killed has told what it spent.
//
//   node buyer.mjs '{"port":6379,"policy":"100/1s","prefix":"x","leases":true,"perSecond":200,"forMs":5000,"key":"k"}'
import { writeSync } from 'node:fs'
import { Redis } from 'ioredis'
import { RateLimiter, RedisStore } from '../../../dist/index.mjs'

const { port, policy, prefix, leases, perSecond, forMs, key, startsAt = 0 } = JSON.parse(process.argv[2])
const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 0 })
client.on('error', () => {})
const store = new RedisStore(client, { prefix, leases })
const counts = { decisions: 0, allowed: 0, lease: 0, degraded: 0 }
const observer = { storeFailed() {} }
// Long enough that a busy machine is not taken for an outage.
const limiter = new RateLimiter({ policy, store, observer, onStoreFailure: 'closed', deadline: '1s' })
await new Promise(resolve => client.once('ready', resolve))
await limiter.peek('warm', 0)

/** @param {import('../../../dist/index.js').Decision} decision @param {number} [askedAt] @param {number} [answeredAt] */
const note = (decision, askedAt, answeredAt) => {
  counts.decisions++
  if (decision.degraded) counts.degraded++
  if (!decision.allowed) return 0
  counts.allowed++
  if (decision.source === 'lease') counts.lease++
  if (askedAt !== undefined) write(`${askedAt} ${answeredAt} 1\n`)
  return 1
}

/** @param {string} line */
function write(line) {
  for (;;) {
    try {
      writeSync(1, line)
      return
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error
    }
  }
}

const begunAt = Math.max(Date.now(), startsAt)
await new Promise(resolve => setTimeout(resolve, begunAt - Date.now()))
let asked = 0
let open = 0
const turn = () => {
  const now = Date.now()
  const due = Math.floor(((Math.min(now, begunAt + forMs) - begunAt) * perSecond) / 1000)
  // A process that was stopped does not catch up.
  asked = Math.max(asked, due - Math.max(20, perSecond / 10))
  let at = now
  let allowed = 0
  while (asked < due) {
    asked++
    const answer = limiter.decide(key)
    if (answer instanceof Promise) {
      open++
      const askedAt = Date.now()
      answer.then(decision => {
        open--
        note(decision, askedAt, Date.now())
      })
      continue
    }
    const then = Date.now()
    if (then !== at && allowed > 0) {
      write(`${at} ${then} ${allowed}\n`)
      allowed = 0
    }
    if (allowed === 0) at = then
    allowed += note(answer)
  }
  if (allowed > 0) write(`${at} ${Date.now()} ${allowed}\n`)
  if (now < begunAt + forMs) setTimeout(turn, 1)
  else end()
}
const end = async () => {
  while (open > 0) await new Promise(resolve => setTimeout(resolve, 5))
  await limiter.close()
  await store.close()
  write(`end ${JSON.stringify(counts)}\n`)
  client.disconnect()
}
turn()
