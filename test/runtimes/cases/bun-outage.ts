import assert from 'node:assert/strict'
import { RateLimiter, RedisStore } from 'spillway'
import { eventually } from '../../support/eventually.js'
import { TcpProxy } from '../../support/tcp-proxy.js'
import type { Case } from '../case.js'
import { CLIENTS, freshName, openBun } from '../clients.js'

export const bunOutage: Case[] = 'Bun' in CLIENTS ? [{ name: 'an outage, Bun', run: outage }] : []

/** The server of Bun's client goes and comes back: every decision is in time, and its owner's listeners are called. */
async function outage(): Promise<string> {
  const proxy = await TcpProxy.start(Number(new URL(process.env.REDIS_URL as string).port))
  const { client, end } = openBun(`redis://127.0.0.1:${proxy.port}`)
  const connections: boolean[] = []
  const limiter = new RateLimiter({
    policy: '1000/1m',
    store: new RedisStore(client, { prefix: freshName() }),
    deadline: '500ms',
  })
  // Set after ours: both are called.
  client.onconnect = () => connections.push(client.connected)
  const source = async () => (await limiter.consume('ada')).source
  assert.equal(await source(), 'redis')
  await proxy.refuse()
  const startedAt = performance.now()
  for (let i = 0; i < 5; i++) assert.equal(await source(), 'fallback')
  const ms = performance.now() - startedAt
  assert.ok(ms < 1000, `five decisions took ${ms} ms`)
  await proxy.accept()
  await eventually('Redis decides again', async () => (await source()) === 'redis')
  assert.deepEqual(connections, [true, true])
  await limiter.close()
  await end()
  await proxy.stop()
  return 'decided in time, and by Redis again'
}
