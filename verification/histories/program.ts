// One process of a run: uses everything at once over its own client.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import express from 'express'
import { rateLimit } from '../../src/http/adapters/express.js'
import { RedisStore } from '../../src/index.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { connected } from './clients.js'
import { forever, isEnding, ms, options, random, recorded, watching } from './recording.js'
import { HTTP, now, RUN_USES } from './subjects.js'
import { type Begun, begin, type Driver, policyOf, sourceOf } from './use.js'

/** Nobody waits longer until the queue is empty. */
const EMPTY_MS = 20_000

const client = await connected(options)
const closing: Array<() => Promise<unknown>> = []
const driver: Driver = {
  name: options.process,
  client,
  random,
  recorded,
  pause,
  now,
  timeoutMs: () => random.integer(100, 4000),
  get isEnding() {
    return isEnding()
  },
  forever(mostMs, act) {
    return forever(async () => {
      await act()
      await ms(0, mostMs)
    })
  },
  onClose: close => closing.push(close),
}

async function serving(): Promise<void> {
  const handled = new Set<string>()
  const app = express()
  const store = new RedisStore(client)
  app.use(
    rateLimit({ name: HTTP.name, policy: policyOf(HTTP.limits), store, key: req => req.get('x-user'), observer: {} }),
  )
  app.get('/', (req, res) => {
    handled.add(req.get('x-id') ?? '')
    const { source } = req.rateLimit ?? { source: 'redis' }
    res.set('x-source', source).send('hello')
  })
  const server = createServer(app).listen(0, '127.0.0.1')
  await new Promise(resolve => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  let count = 0
  await forever(async () => {
    const key = `k${random.integer(1, 2)}`
    const id = String(++count)
    const begun: Begun = { op: 'request', subject: HTTP.name, key, cost: 1 }
    await recorded(
      begun,
      () => fetch(url, { headers: { 'x-user': key, 'x-id': id } }),
      ({ status, headers }) => {
        const source = sourceOf(headers.get('x-source') ?? 'redis')
        const told = { source: status === 200 ? source : undefined, handled: handled.delete(id) }
        return { status, retryAfter: headers.get('retry-after') ?? undefined, allowed: status === 200, ...told }
      },
    )
    await ms(5, 80)
  })
  server.closeAllConnections()
  server.close()
}

/** An answer may be lost on a busy machine, and its message is delivered again 3 s later: somebody must be there. */
async function emptied(): Promise<void> {
  const queue = new DelayQueue(client, 'queue')
  const isEmpty = async () => {
    const { ready, delayed, unacked } = await queue.stats()
    return ready + delayed + unacked === 0
  }
  await pause(4000)
  const endsAt = now() + EMPTY_MS
  while (now() < endsAt && !(await isEmpty().catch(() => false))) await pause(200)
}

// Leases pay for processes that ask much: for some of them, so that others ask Redis beside them.
const uses = RUN_USES.filter(({ subject }) => !subject.leased || options.number % 3 === 1)
await Promise.all([watching(), serving(), ...uses.map(use => begin(use, driver))])
await emptied()
await Promise.all(closing.map(close => close().catch(() => {})))
process.exit(0)
