import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { eventually } from '../../test/support/eventually.js'
import { attemptsTo, Traffic } from '../../test/support/reconnection-contract.js'
import { closeClients } from '../../test/support/redis-clients.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'
import { CLIENTS } from '../../test/support/tested-clients.js'
import { OLDER_CLIENTS } from '../../test/versions/older-clients.js'

const DEAD_MS = 4000
const RETRY_MS = 500

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await RedisCluster.start()
}, 60_000)
afterAll(async () => {
  await closeClients()
  await cluster.stop()
})

/** A way to each node of the cluster that can be shut. */
class Doors {
  private constructor(readonly proxies: ReadonlyMap<number, TcpProxy>) {}

  static async open(): Promise<Doors> {
    return new Doors(
      new Map(await Promise.all(cluster.nodes.map(async ({ port }) => [port, await TcpProxy.start(port)] as const))),
    )
  }

  readonly to = ({ host, port }: { host: string; port: number }) => ({
    host,
    port: this.proxies.get(port)?.port ?? port,
  })

  get attempts(): number {
    return [...this.proxies.values()].reduce((sum, { port }) => sum + attemptsTo(port), 0)
  }

  async all(act: (proxy: TcpProxy) => Promise<void>): Promise<void> {
    await Promise.all([...this.proxies.values()].map(act))
  }
}

/**
 * GLIDE's attempts are not made by Node. A cluster of node-redis 4.6.0 does not come back by itself, with or without
 * this package.
 */
const ALL = Object.entries({ ...CLIENTS, ...OLDER_CLIENTS }).flatMap(([name, { cluster: make }]) =>
  name.includes('GLIDE') || name === 'node-redis 4.6' || make === undefined ? [] : [[name, make] as const],
)

test.each(ALL)(
  'a cluster of %s whose nodes are all dead is asked to connect as often as one without this package',
  async (_, make) => {
    const [own, shared] = [await Doors.open(), await Doors.open()]
    const retries = { retryMs: RETRY_MS }
    const alone = (await make(cluster, retries, own.to)) as { get(key: string): Promise<unknown> }
    const used = await make(cluster, retries, shared.to)
    await eventually('all nodes are known', async () => {
      for (let i = 0; i < 20; i++) await alone.get(`k${i}`)
      return true
    })
    const traffic = await Traffic.start(used, cluster.nodes)
    await Promise.all([own, shared].map(doors => doors.all(proxy => proxy.refuse())))
    // Until a cluster of ioredis notices, each command makes it try a node.
    await new Promise(done => setTimeout(done, RETRY_MS))
    const startedAt = performance.now()
    const before = [own.attempts, shared.attempts]
    await new Promise(done => setTimeout(done, DEAD_MS))
    const attempts = [own.attempts - before[0], shared.attempts - before[1]]
    const byStrategy = cluster.nodes.length * (1 + Math.floor((performance.now() - startedAt) / RETRY_MS))
    await Promise.all([own, shared].map(doors => doors.all(proxy => proxy.accept())))
    await eventually('Redis decides again', () => traffic.isDecided())
    await traffic.end()
    for (const count of attempts) expect(count).toBeLessThanOrEqual(byStrategy)
    await Promise.all([own, shared].map(doors => doors.all(proxy => proxy.stop())))
  },
  40_000,
)
