// Real servers of a run, each with a clock of its own and two doors: proxies through which half of the processes come
// each.
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../../test/support/eventually.js'
import type { Address } from '../../test/support/redis-clients.js'
import { RedisCluster } from '../../test/support/redis-cluster.js'
import { RedisSentinel } from '../../test/support/redis-sentinel.js'
import { RedisServer } from '../../test/support/redis-server.js'
import { SteppedClock } from '../../test/support/stepped-clock.js'
import { TcpProxy } from '../../test/support/tcp-proxy.js'

export type Topology = 'single' | 'cluster' | 'sentinel'

/** Where a process finds the servers, as JSON. */
export interface Place {
  readonly topology: Topology
  readonly servers: readonly Address[]
  readonly sentinels: readonly Address[]
  /** By the port of a server. */
  readonly doors: Readonly<Record<number, Address>>
}

/** Longer than any of the pauses that a run makes: servers that only stand still keep their role. */
const NODE_TIMEOUT_MS = 3000
/** A copy without a disk is begun when a replica has waited for 5 s by a clock that this run sets back: never, then. */
const COPIES = ['--repl-diskless-sync', 'no', '--rdb-del-sync-files', 'yes']

export class Servers {
  readonly doors = new Map<RedisServer, readonly TcpProxy[]>()
  readonly #ahead = new Map<RedisServer, number>()

  private constructor(
    readonly topology: Topology,
    readonly all: readonly RedisServer[],
    readonly clocks: readonly SteppedClock[],
    readonly cluster?: RedisCluster,
    readonly sentinel?: RedisSentinel,
  ) {}

  static async start(topology: Topology): Promise<Servers> {
    const count = { single: 1, cluster: 6, sentinel: 2 }[topology]
    const clocks = await Promise.all(Array.from({ length: count }, () => SteppedClock.make()))
    const env = (i: number) => clocks[i].env
    const made = async () => {
      if (topology === 'single') {
        return new Servers(topology, [await RedisServer.start({ env: env(0) })], clocks)
      }
      if (topology === 'sentinel') {
        const sentinel = await RedisSentinel.start({ sentinels: 3, args: COPIES, env })
        return new Servers(topology, sentinel.servers, clocks, undefined, sentinel)
      }
      const args = ['--cluster-node-timeout', String(NODE_TIMEOUT_MS), ...COPIES]
      const cluster = await RedisCluster.start({ nodes: 3, replicas: 1, args, env })
      return new Servers(topology, cluster.nodes, clocks, cluster)
    }
    const servers = await made()
    for (const server of servers.all) {
      servers.doors.set(server, [await TcpProxy.start(server.port), await TcpProxy.start(server.port)])
    }
    return servers
  }

  place(process: number): Place {
    const address = ({ host, port }: Address) => ({ host, port })
    const doors: Record<number, Address> = {}
    for (const [server, two] of this.doors) doors[server.port] = { host: '127.0.0.1', port: two[process % 2].port }
    const sentinels = this.sentinel?.sentinels.map(address) ?? []
    return { topology: this.topology, servers: this.all.map(address), sentinels, doors }
  }

  /** As others than `except` see them now. */
  async primaries(except?: RedisServer): Promise<RedisServer[]> {
    if (this.cluster) {
      const ranges = await this.cluster.ranges(this.all.find(server => server !== except))
      const ports = new Set(ranges.map(({ ports }) => ports[0]))
      return this.all.filter(({ port }) => ports.has(port))
    }
    return this.sentinel ? [await this.sentinel.primary()] : [...this.all]
  }

  async replicaOf(primary: RedisServer): Promise<RedisServer | undefined> {
    if (this.sentinel) return this.sentinel.replica()
    const range = (await this.cluster?.ranges())?.find(({ ports }) => ports[0] === primary.port)
    return this.all.find(({ port }) => port === range?.ports[1])
  }

  /** One command to one server; undefined: it refused. */
  async tell(server: RedisServer, name: string, ...words: Array<string | number>): Promise<unknown> {
    const admin = server.client()
    try {
      return await admin.call(name, ...words)
    } catch {
      return undefined
    } finally {
      admin.disconnect()
    }
  }

  /** Resolves when another server has taken the place of one that is dead or stands still. */
  async replaced(dead: RedisServer): Promise<void> {
    if (this.sentinel) await this.sentinel.promoted(dead)
    else {
      await eventually('a replica takes over', async () => {
        const primaries = await this.primaries(dead)
        return primaries.length === this.cluster?.size && !primaries.includes(dead)
      })
    }
  }

  /** Has a replica take over while its primary lives. */
  async failover(primary: RedisServer): Promise<void> {
    if (this.sentinel) return void (await this.sentinel.failover())
    const replica = await this.replicaOf(primary)
    if (replica === undefined) return
    await this.tell(replica, 'CLUSTER', 'FAILOVER')
    await this.replaced(primary)
  }

  /** Resolves when everybody has the role and the replicas that belong to it. */
  async whole(): Promise<void> {
    if (this.cluster) {
      await this.cluster.healthy()
      await this.cluster.replicated()
    }
    if (this.sentinel) await this.sentinel.whole()
  }

  /** Moves a slot that has keys from one primary to another. */
  async moveSlot(pick: <T>(choices: readonly T[]) => T): Promise<void> {
    const primaries = await this.primaries()
    const from = pick(primaries)
    const key = await this.tell(from, 'RANDOMKEY')
    if (typeof key !== 'string' || this.cluster === undefined) return
    await this.cluster.moveSlot(await this.cluster.slotOf(key), pick(primaries.filter(one => one !== from)), () => {
      return pause(pick([0, 50, 300]))
    })
  }

  /** Steps the clock of a server, from what it shows now. */
  async stepClock(server: RedisServer, ms: number): Promise<void> {
    const ahead = (this.#ahead.get(server) ?? 0) + ms
    this.#ahead.set(server, ahead)
    await this.clocks[this.all.indexOf(server)].set(ahead)
  }

  async stop(): Promise<void> {
    for (const two of this.doors.values()) for (const door of two) await door.stop()
    await (this.cluster ?? this.sentinel ?? this.all[0]).stop()
    for (const clock of this.clocks) await clock.remove()
  }
}
