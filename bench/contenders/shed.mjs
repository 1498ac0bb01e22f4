// An Express service whose handler needs a few ms of its processor, with `shed` in front or without.
import { pbkdf2Sync } from 'node:crypto'
import { once } from 'node:events'
import express from 'express'
import { processLoad } from '../../dist/adaptive.mjs'
import { shed } from '../../dist/express.mjs'
import { answer, setup } from './answering.mjs'

const app = express()
/** @type {(req: import('express').Request) => number} */
const priority = req => Number(req.get('x-priority'))
if (setup.sheds) app.use(shed({ load: processLoad(), priority }))
app.get('/', (_req, res) => {
  pbkdf2Sync('a password', 'salt', 5000, 32, 'sha256')
  res.send('hello')
})
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')

answer({ port: () => /** @type {import('node:net').AddressInfo} */ (server.address()).port })
