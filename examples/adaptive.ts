// Overload: a computing service gets more requests than it can handle. It refuses the least important requests first,
// and keeps answering the important ones.
//
//   node --import tsx examples/adaptive.ts
import { pbkdf2Sync } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Worker } from 'node:worker_threads'
import express from 'express'
import { processLoad } from 'spillway/adaptive'
import { shed } from 'spillway/express'

const load = processLoad()

const app = express()
app.use(shed({ load, priority: req => (req.path === '/pay' ? 0 : 3) }))
app.get(['/pay', '/search'], (_req, res) => {
  pbkdf2Sync('work', 'for the processor', 50_000, 32, 'sha256')
  res.send('done\n')
})
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

// Clients in a thread of their own, because this one is busy: thirty search all the time, one pays.
const clients = new Worker(
  `
  const { parentPort, workerData: url } = require('node:worker_threads')
  const counts = { '/pay': {}, '/search': {} }
  const ask = async (path, pauseMs) => {
    for (;;) {
      const { status } = await fetch(url + path).catch(() => ({ status: 0 }))
      counts[path][status] = (counts[path][status] ?? 0) + 1
      await new Promise(resolve => setTimeout(resolve, pauseMs))
    }
  }
  for (let i = 0; i < 30; i++) ask('/search', 50)
  ask('/pay', 50)
  parentPort.on('message', () => parentPort.postMessage(counts))
  `,
  { eval: true, workerData: url },
)
for (let second = 1; second <= 3; second++) {
  await new Promise(resolve => setTimeout(resolve, 1000))
  console.log(`after ${second} s: level ${load.level.toFixed(1)} (${load.reason})`)
}
clients.postMessage('counts')
const [counts] = (await once(clients, 'message')) as [Record<string, Record<string, number>>]
for (const [path, { 200: done = 0, 503: refused = 0 }] of Object.entries(counts)) {
  console.log(`${path}: ${done} done, ${refused} refused`)
}
process.exit(0)
