import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { parseLimit } from '../../src/limiter/core/limit.js'
import { portOf } from '../../src/redis/clients.js'
import { RedisCluster } from '../support/redis-cluster.js'

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await RedisCluster.start()
}, 30_000)
afterAll(() => cluster?.stop())

const NAMES = Array.from({ length: 8 }, (_, i) => `client ${i}`)

/** The server that has a key. */
async function ownerOf(key: string): Promise<string> {
  const { host, port } = await cluster.ownerOf(await cluster.slotOf(key))
  return `${host}:${port}`
}

test('a prefix that begins with empty braces is refused: scripts with several keys would be', () => {
  const client = cluster.client({ keyPrefix: 'a{}b:' })
  expect(() => new RedisStore(client)).toThrow(/keyPrefix "a\{\}b:": given \{\} first.*expected a prefix without/)
})

test.each(['app:', '{app}:', 'a{'])(
  'with the prefix %p the server of a key is the one that the client asks',
  async keyPrefix => {
    const client = cluster.client({ keyPrefix })
    const port = portOf(client, 'test')
    await client.get('first')
    for (const key of NAMES) {
      expect(port.serverOf(port.slotOf(key))).toBe(await ownerOf(keyPrefix + key))
    }
  },
)

test.each(['app:', '{app}:', 'a{'])('with the prefix %p a limiter knows which server decides', async keyPrefix => {
  const store = new RedisStore(cluster.client({ keyPrefix }), { prefix: 'charges' })
  const limit = parseLimit({ quota: 5, window: '1h' })
  for (const key of NAMES) {
    await store.consume([{ key, limit }], 1)
    const sent = (await Promise.all(cluster.nodes.map(node => node.client().keys('*')))).flat()
    const found = sent.find(name => name.startsWith(`${keyPrefix}charges:`) && name.includes(`:${key}:`))
    expect(store.serverOf?.({ key, limit })).toBe(await ownerOf(String(found)))
  }
})
