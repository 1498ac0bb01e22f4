// An Express service of ten at 20 ms: what comes above waits inside, first come, first served. With adaptive permits in
// front or without.
import { once } from 'node:events'
import express from 'express'
import { adaptivePermits } from '../../dist/adaptive.mjs'
import { concurrencyLimit } from '../../dist/express.mjs'
import { answer, setup } from './answering.mjs'

const SLOTS = 10
const WORK_MS = 20
/** @type {Array<() => void>} */
const waiting = []
let working = 0

/** @param {() => void} done */
function work(done) {
  working++
  setTimeout(() => {
    working--
    done()
    const next = waiting.shift()
    if (next) work(next)
  }, WORK_MS)
}

const permits = setup.adapts ? adaptivePermits({ initial: 5 }) : undefined
const app = express()
if (permits !== undefined) app.use(concurrencyLimit({ permits }))
app.get('/', (_req, res) => {
  const done = () => res.send('hello')
  if (working < SLOTS) work(done)
  else waiting.push(done)
})
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')

answer({
  port: () => /** @type {import('node:net').AddressInfo} */ (server.address()).port,
  limit: () => permits?.limit,
})
