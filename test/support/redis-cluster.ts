import { Cluster, type ClusterOptions, type Redis } from 'ioredis'
import { eventually } from './eventually.js'
import { END_MS, RedisServer } from './redis-server.js'

export interface RedisClusterOptions {
  /** How many nodes, each with its part of the slots; default 3. */
  readonly nodes?: number
  /** How many replicas each of them has; default 0. They follow the primaries in `nodes`. */
  readonly replicas?: number
  /** Added to each node's command line. */
  readonly args?: readonly string[]
  /** Added to the environment of each node. */
  readonly env?: (node: number) => Readonly<Record<string, string>>
}

const SLOTS = 16_384
// After this long a silent node counts as dead, and its slots with it: short enough to test, long enough for a busy
// machine.
const ARGS = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '5000']

/**
 * A real cluster of primaries that share the slots evenly, with replicas or without. It takes two seconds to start,
 * because a new node waits for that time before it reports ok.
 */
export class RedisCluster {
  readonly nodes: readonly RedisServer[]
  readonly #admins: ReadonlyMap<RedisServer, Redis>
  readonly #clients = new Set<Cluster>()

  private constructor(
    nodes: readonly RedisServer[],
    readonly size: number,
  ) {
    this.nodes = nodes
    this.#admins = new Map(nodes.map(node => [node, node.client()]))
  }

  static async start({
    nodes: size = 3,
    replicas = 0,
    args = [],
    env,
  }: RedisClusterOptions = {}): Promise<RedisCluster> {
    const length = size * (1 + replicas)
    const nodes = await Promise.all(
      Array.from({ length }, (_, i) => RedisServer.start({ args: [...ARGS, ...args], env: env?.(i) })),
    )
    const cluster = new RedisCluster(nodes, size)
    try {
      await cluster.#join()
      return cluster
    } catch (error) {
      await cluster.stop()
      throw error
    }
  }

  /** A client of the cluster, disconnected when it is stopped. */
  client(options: ClusterOptions = {}): Cluster {
    const startup = this.nodes.map(({ host, port }) => ({ host, port }))
    const redisOptions = { disconnectTimeout: END_MS, ...options.redisOptions }
    const client = new Cluster(startup, { ...options, redisOptions })
    client.on('error', () => {})
    this.#clients.add(client)
    return client
  }

  /** Resolves when every node sees all slots served: after a node was restarted, or continued after a pause. */
  async healthy(): Promise<void> {
    const whole = [
      'cluster_state:ok',
      `cluster_slots_ok:${SLOTS}`,
      `cluster_known_nodes:${this.nodes.length}`,
      `cluster_size:${this.size}`,
    ]
    await eventually('every node of the cluster says ok', async () => {
      const infos = (await this.#ask(this.nodes, 'INFO')) as string[]
      return infos.every(info => whole.every(line => info.split('\r\n').includes(line)))
    })
  }

  async slotOf(key: string): Promise<number> {
    return (await this.#cluster(this.nodes[0], 'KEYSLOT', key)) as number
  }

  /** The node that serves a slot. */
  async ownerOf(slot: number): Promise<RedisServer> {
    const port = (await this.ranges()).find(({ first, last }) => first <= slot && slot <= last)?.ports[0]
    const owner = this.nodes.find(node => node.port === port)
    if (!owner) throw new Error(`no node serves slot ${slot}`)
    return owner
  }

  /** Who serves which slots, as one node sees it: the port of the primary, then those of its replicas. */
  async ranges(seenBy = this.nodes[0]): Promise<Array<{ first: number; last: number; ports: number[] }>> {
    const ranges = (await this.#cluster(seenBy, 'SLOTS')) as [number, number, ...[string, number][]][]
    return ranges.map(([first, last, ...servers]) => ({ first, last, ports: servers.map(([, port]) => port) }))
  }

  /**
   * Moves a slot with its keys to another node, under the feet of its clients. `halfway` runs while the slot is open on
   * both sides and no key has moved yet: the old owner answers for the keys it has and sends clients on (ASK) for all
   * others.
   */
  async moveSlot(slot: number, to: RedisServer, halfway?: () => Promise<unknown>): Promise<void> {
    const from = await this.ownerOf(slot)
    if (from === to) return
    const [source, target] = (await this.#ask([from, to], 'MYID')) as [string, string]
    await this.#cluster(to, 'SETSLOT', slot, 'IMPORTING', source)
    await this.#cluster(from, 'SETSLOT', slot, 'MIGRATING', target)
    await halfway?.()
    await eventually(`the keys of slot ${slot} have moved`, async () => {
      const keys = (await this.#cluster(from, 'GETKEYSINSLOT', slot, 1000)) as string[]
      if (keys.length === 0) return true
      await this.#admin(from).call('MIGRATE', to.host, to.port, '', 0, 5000, 'REPLACE', 'KEYS', ...keys)
      return false
    })
    // Notify the new owner first: in the other order, both could briefly redirect clients to each other.
    await this.#cluster(to, 'SETSLOT', slot, 'NODE', target)
    await this.#cluster(from, 'SETSLOT', slot, 'NODE', target)
    await eventually(`slot ${slot} is known to have moved`, async () => {
      const views = (await this.#ask(this.nodes, 'SLOTS')) as [number, number, [string, number]][][]
      return views.every(ranges => ranges.some(([a, b, [, port]]) => a <= slot && slot <= b && port === to.port))
    })
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.disconnect()
    await Promise.all(this.nodes.map(node => node.stop()))
  }

  async #join(): Promise<void> {
    const { nodes, size } = this
    await Promise.all(
      nodes.map(async (node, i) => {
        // Epochs that differ from the start spare the nodes from settling a collision first.
        await this.#cluster(node, 'SET-CONFIG-EPOCH', i + 1)
        if (i >= size) return
        const first = Math.ceil((i * SLOTS) / size)
        const last = Math.ceil(((i + 1) * SLOTS) / size)
        await this.#cluster(node, 'ADDSLOTS', ...Array.from({ length: last - first }, (_, k) => first + k))
      }),
    )
    // Each node meets each other node, because gossip alone would take some seconds more.
    for (const node of nodes) {
      for (const other of nodes) if (other !== node) await this.#cluster(node, 'MEET', other.host, other.port)
    }
    await this.healthy()
    if (nodes.length === size) return
    const ids = (await this.#ask(nodes, 'MYID')) as string[]
    for (const [i, node] of nodes.entries()) if (i >= size) await this.#cluster(node, 'REPLICATE', ids[i % size])
    await this.replicated()
  }

  /**
   * Resolves when each primary has its replicas, all nodes know that, and the replicas have what the primaries have.
   */
  async replicated(): Promise<void> {
    const of = this.nodes.length / this.size
    await eventually('every primary has its replicas', async () => {
      const views = await Promise.all(this.nodes.map(node => this.ranges(node)))
      const links = await Promise.all(this.nodes.map(node => this.#admin(node).info('replication')))
      const linked = links.every(info => !info.includes('role:slave') || info.includes('master_link_status:up'))
      return linked && views.every(ranges => ranges.every(({ ports }) => ports.length === of))
    })
  }

  #admin(node: RedisServer): Redis {
    return this.#admins.get(node) as Redis
  }

  #cluster(node: RedisServer, ...args: (string | number)[]): Promise<unknown> {
    return this.#admin(node).call('CLUSTER', ...args)
  }

  #ask(nodes: readonly RedisServer[], ...args: (string | number)[]): Promise<unknown[]> {
    return Promise.all(nodes.map(node => this.#cluster(node, ...args)))
  }
}
