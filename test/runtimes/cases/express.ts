import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler, type Response } from 'express'
import { concurrencyLimit, rateLimit } from 'spillway/express'
import { eventually } from '../../support/eventually.js'
import { rawClient } from '../../support/raw-client.js'
import type { Case } from '../case.js'
import { checkTwoASecond } from './two-a-second.js'

export const expressCases: Case[] = [
  { name: 'Express', run: limits },
  { name: 'Express, requests that end early', run: earlyEnds },
]

async function serving<Result>(handlers: RequestHandler[], work: (port: number) => Promise<Result>): Promise<Result> {
  const server = express()
    .use(...handlers)
    .listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    return await work((server.address() as AddressInfo).port)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

function limits(): Promise<string> {
  const answer: RequestHandler = (req, res) => void res.send(`${req.rateLimit?.remaining} left`)
  return serving([rateLimit({ policy: '2/1s' }), answer], async port => {
    await checkTwoASecond(port)
    return 'decision, header fields, refusal, the promised moment'
  })
}

/**
 * The client leaves while the handler works: what the request costs is known when the handler has ended it, and until
 * then it holds its place.
 */
async function earlyEnds(): Promise<string> {
  const ends: unknown[] = []
  const logins = rateLimit({
    policy: '5/15m',
    key: () => 'mallory',
    cost: 0,
    settle: (_req, res, end) => {
      ends.push({ ...end })
      return res.statusCode === 401 ? 1 : 0
    },
  })
  const places = concurrencyLimit({ permits: 1, key: () => 'all' })
  const atWork: Response[] = []
  const left: unknown[] = []
  const handle: RequestHandler = (req, res) => {
    if (req.path === '/quick') return void res.send('quick')
    res.on('close', () => left.push(req.path))
    atWork.push(res)
  }
  await serving([places, logins, handle], async port => {
    const client = await rawClient(port)
    client.send('/login')
    await eventually('the handler works', () => atWork.length === 1)
    client.leave()
    await eventually('the server has noticed', () => left.length === 1)
    const ask = async () => (await fetch(`http://127.0.0.1:${port}/quick`)).status
    assert.deepEqual([ends, await ask()], [[], 429])
    atWork[0].status(401).send('wrong')
    await eventually('it is settled', () => ends.length === 1)
    assert.deepEqual(ends, [{ completed: false, ended: true }])
    await eventually('it has paid', async () => (await logins.limiter.peek('mallory', 0)).remaining === 4)
    await eventually('its place is free', async () => (await ask()) === 200)
  })
  return 'place held and cost settled by the handler'
}
