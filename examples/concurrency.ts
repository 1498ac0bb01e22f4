// Limits concurrency: each user may run two slow reports at a time, a third waits for its turn, more are refused.
//
//   node --import tsx examples/concurrency.ts
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import { concurrencyLimit } from 'spillway/express'

const app = express()
app.get(
  '/report',
  concurrencyLimit({
    permits: 2,
    // undefined: not limited. Without a key the limit is for the whole service, and refuses with 503.
    key: req => req.get('x-user'),
    wait: '10s',
    queue: 1,
    // client: new Redis()  counts over all processes
  }),
  async (_req, res) => {
    await sleep(400)
    res.send('the report\n')
  },
)

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/report`

const startedAt = performance.now()
const ask = async (name: string) => {
  const reply = await fetch(url, { headers: { 'x-user': 'ada' } })
  const again = reply.headers.get('retry-after')
  const ms = Math.round(performance.now() - startedAt)
  console.log(`${name}: ${reply.status} after ${ms} ms${again ? `, come back in ${again} s` : ''}`)
}
const all: Promise<void>[] = []
for (const name of ['first', 'second', 'third', 'fourth']) {
  all.push(ask(name))
  await sleep(30)
}
await Promise.all(all)
server.close()
