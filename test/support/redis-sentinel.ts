import { Redis, type RedisOptions } from 'ioredis'
import { eventually } from './eventually.js'
import { END_MS, RedisServer } from './redis-server.js'

export interface RedisSentinelOptions {
  /** How many sentinels watch: 1 (default) or 3. Most of them must agree before a dead primary is replaced. */
  readonly sentinels?: number
  /** Added to the command lines of primary and replica. */
  readonly args?: readonly string[]
  /** Added to the environments of the primary (0) and the replica (1). */
  readonly env?: (server: number) => Readonly<Record<string, string>>
}

const NAME = 'spillway'
/** Sentinels repeat a failover that they gave up, or mend a wrong role, only after ten seconds or more. */
const ROLES_MS = 60_000
const HASTE = ['INFO-PERIOD', '200', 'PUBLISH-PERIOD', '200', 'ASK-PERIOD', '200', 'ELECTION-TIMEOUT', '1000']

/** A primary, its replica, and the sentinels that promote the replica when the primary is dead for a second. */
export class RedisSentinel {
  readonly sentinels: readonly RedisServer[]
  readonly servers: readonly RedisServer[]
  readonly #admins: ReadonlyMap<RedisServer, Redis>
  readonly #clients = new Set<Redis>()

  private constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[]) {
    this.servers = servers
    this.sentinels = sentinels
    this.#admins = new Map([...servers, ...sentinels].map(server => [server, server.client()]))
  }

  static async start({ sentinels: count = 1, args = [], env }: RedisSentinelOptions = {}): Promise<RedisSentinel> {
    const primary = await RedisServer.start({ args, env: env?.(0) })
    const replica = await RedisServer.start({ args, env: env?.(1) })
    const config = configOf(primary, count)
    const starts = Array.from({ length: count }, () => RedisServer.start({ config, args: ['--sentinel'] }))
    const group = new RedisSentinel([primary, replica], await Promise.all(starts))
    try {
      // By a command: a server that restarts after it was promoted is not to follow the other one.
      await group.#admin(replica).replicaof(primary.host, primary.port)
      // Servers that know these (7.0 and later) look around in fractions of a second instead of every ten.
      for (const sentinel of group.sentinels) await group.#ask(sentinel, 'DEBUG', ...HASTE).catch(() => {})
      await group.whole()
      return group
    } catch (error) {
      await group.stop()
      throw error
    }
  }

  /** The primary as the first sentinel names it now. */
  async primary(): Promise<RedisServer> {
    const address = (await this.#ask(this.sentinels[0], 'GET-MASTER-ADDR-BY-NAME', NAME)) as [string, string]
    return this.servers.find(server => server.port === Number(address[1])) as RedisServer
  }

  async replica(): Promise<RedisServer> {
    const primary = await this.primary()
    return this.servers.find(server => server !== primary) as RedisServer
  }

  /** A client that asks the sentinels for the primary; disconnected when the group is stopped. */
  client(options: RedisOptions = {}): Redis {
    const sentinels = this.sentinels.map(({ host, port }) => ({ host, port }))
    const client = new Redis({ sentinels, name: NAME, disconnectTimeout: END_MS, ...options })
    client.on('error', () => {})
    this.#clients.add(client)
    return client
  }

  /**
   * Has the sentinels promote the replica while the primary lives. Resolves with the new primary, the old one being its
   * replica.
   */
  async failover(): Promise<RedisServer> {
    const [before, promoted] = await Promise.all([this.primary(), this.replica()])
    await this.#ask(this.sentinels[0], 'FAILOVER', NAME)
    await this.whole()
    // Sentinels give a failover up if the replica is slow, and keep the primary.
    return (await this.primary()) === before ? this.failover() : promoted
  }

  /** Resolves with the new primary when the sentinels have replaced one that was killed or paused. */
  async promoted(instead: RedisServer): Promise<RedisServer> {
    const other = this.servers.find(server => server !== instead) as RedisServer
    await eventually('the replica is promoted', async () => {
      return (await this.#role(other))[0] === 'master' && (await this.primary()) === other
    })
    return other
  }

  /** Resolves when the other server follows the primary and all sentinels know it. */
  async whole(): Promise<void> {
    // Meanwhile the sentinels may find that the primary is dead.
    const isWhole = async () => this.#isSettled(await this.primary(), await this.replica())
    await eventually('the replica follows the primary, and the sentinels know both and each other', isWhole, ROLES_MS)
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.disconnect()
    await Promise.all([...this.sentinels, ...this.servers].map(server => server.stop()))
  }

  /**
   * The replica follows the primary, and every sentinel knows both and each other: only then a failover can succeed.
   */
  async #isSettled(primary: RedisServer, replica: RedisServer): Promise<boolean> {
    const [role, , port, state] = await this.#role(replica)
    if (role !== 'slave' || port !== primary.port || state !== 'connected') return false
    const views = await Promise.all(this.sentinels.map(sentinel => this.#view(sentinel)))
    const others = String(this.sentinels.length - 1)
    return views.every(
      ([master, replicas]) =>
        master.port === String(primary.port) &&
        master.flags === 'master' &&
        master['num-other-sentinels'] === others &&
        replicas.some(
          seen => seen.port === String(replica.port) && seen.flags === 'slave' && seen['master-link-status'] === 'ok',
        ),
    )
  }

  async #view(sentinel: RedisServer): Promise<[Record<string, string>, Record<string, string>[]]> {
    const master = (await this.#ask(sentinel, 'MASTER', NAME)) as string[]
    const replicas = (await this.#ask(sentinel, 'REPLICAS', NAME)) as string[][]
    return [fields(master), replicas.map(fields)]
  }

  #ask(sentinel: RedisServer, ...args: string[]): Promise<unknown> {
    return this.#admin(sentinel).call('SENTINEL', ...args)
  }

  async #role(server: RedisServer): Promise<unknown[]> {
    return (await this.#admin(server).call('ROLE')) as unknown[]
  }

  #admin(server: RedisServer): Redis {
    return this.#admins.get(server) as Redis
  }
}

function configOf(primary: RedisServer, sentinels: number): (port: number) => string {
  const majority = Math.floor(sentinels / 2) + 1
  return port =>
    [
      'bind 127.0.0.1',
      `port ${port}`,
      `sentinel monitor ${NAME} ${primary.host} ${primary.port} ${majority}`,
      `sentinel down-after-milliseconds ${NAME} 1000`,
      `sentinel failover-timeout ${NAME} 5000`,
    ].join('\n')
}

function fields(flat: readonly string[]): Record<string, string> {
  return Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1]]] : [])))
}
