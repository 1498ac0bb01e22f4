import { Socket } from 'node:net'
import { afterAll, describe, expect, jest, test } from '@jest/globals'
import { RedisStore } from '../../src/index.js'
import { RateLimiter } from '../../src/limiter/rate-limiter.js'
import type { RedisClient } from '../../src/redis/client.js'
import { DelayQueue } from '../../src/waiting/queue/delay-queue.js'
import { eventually } from './eventually.js'
import { type ClientKind, closeClients } from './redis-clients.js'
import { RedisServer } from './redis-server.js'
import { TcpProxy } from './tcp-proxy.js'

const RETRY_MS = 200
/** For nothing to come. */
const A_WHILE_MS = 150
const DEAD_MS = 2000

const ATTEMPTS = new Map<unknown, number>()
const { connect } = Socket.prototype
// Counts what this process tries, also where nobody listens.
Socket.prototype.connect = function (this: Socket, ...args: Parameters<typeof connect>) {
  const [first] = args as unknown[]
  const { port } = (Array.isArray(first) ? first[0] : first) as { port?: unknown }
  ATTEMPTS.set(Number(port), attemptsTo(Number(port)) + 1)
  return connect.apply(this, args)
} as typeof connect

/** Connections to a port of this machine that the clients of this process have tried to open. */
export function attemptsTo(port: number): number {
  return ATTEMPTS.get(port) ?? 0
}

/** What the application does with its client itself. */
interface Application {
  get(key: string): Promise<unknown>
}

/** All that makes this package use a client: 200 decisions a second, waiters that listen, a receiver that blocks. */
export class Traffic {
  readonly #timer: ReturnType<typeof setInterval>
  readonly #limiter: RateLimiter
  readonly #queue: DelayQueue<string>
  readonly #end = new AbortController()

  private constructor(client: RedisClient) {
    const store = new RedisStore(client)
    this.#limiter = new RateLimiter({ policy: '1000000/1h', store, observer: {} })
    const full = new RateLimiter({ policy: '1/1h', name: 'full', store, observer: {}, deadline: '5s' })
    this.#timer = setInterval(() => this.#limiter.consume('k'), 5)
    this.#queue = new DelayQueue<string>(client, 'mail')
    const { signal } = this.#end
    for (let i = 0; i < 3; i++) full.acquire('k', { signal }).catch(() => {})
    this.#queue.receive({ wait: '1m', signal }).catch(() => {})
  }

  /** Resolves when decisions come from Redis, a connection listens, and another one blocks, at some of the servers. */
  static async start(client: RedisClient, servers: readonly RedisServer[]): Promise<Traffic> {
    const traffic = new Traffic(client)
    const some = async (test: (server: RedisServer) => Promise<boolean>) =>
      (await Promise.all(servers.map(test))).includes(true)
    await eventually('Redis decides', () => traffic.isDecided())
    await eventually('it listens', () =>
      some(async server => ((await server.client().pubsub('CHANNELS', 'spillway!*')) as []).length > 0),
    )
    await eventually('it blocks', () => some(async server => (await server.blockedClients()) > 0))
    return traffic
  }

  async isDecided(): Promise<boolean> {
    return (await this.#limiter.consume('k')).source === 'redis'
  }

  async end(): Promise<void> {
    clearInterval(this.#timer)
    this.#end.abort()
    await this.#queue.close()
  }
}

/** A client that this package uses behaves as it would without: compared with one like it beside it. */
export function describeReconnection(all: Readonly<Record<string, ClientKind>>): void {
  // Over HTTP there is no connection.
  const kinds = Object.entries(all).filter(([name]) => !name.startsWith('@upstash'))
  afterAll(() => closeClients())

  describe('while the server is dead', () => {
    test.concurrent.each(kinds)(
      '%s connects no more often than its own strategy says, and the application is answered as without this package',
      async (name, kind) => {
        const isGlide = name.includes('GLIDE')
        const server = await RedisServer.start()
        const [own, shared] = [await TcpProxy.start(server.port), await TcpProxy.start(server.port)]
        const retries = { retryMs: RETRY_MS }
        const alone = (await kind.single({ host: server.host, port: own.port }, retries)) as Application
        const used = (await kind.single({ host: server.host, port: shared.port }, retries)) as Application
        await alone.get('k')
        const traffic = await Traffic.start(used, [server])
        const ports = [own.port, shared.port]
        const accepted = [own.accepted, shared.accepted]
        const before = ports.map(port => attemptsTo(port))
        await server.kill()
        // GLIDE's attempts are not made by Node: they are counted where they arrive.
        if (!isGlide) await Promise.all([own.refuse(), shared.refuse()])
        const killedAt = performance.now()
        // By now the clients have noticed.
        await new Promise(done => setTimeout(done, RETRY_MS / 2))
        const answers = [alone, used].map(client => client.get('k').then(String, error => `failed: ${error.message}`))
        await new Promise(done => setTimeout(done, DEAD_MS))
        const attempts = isGlide
          ? [own.accepted - accepted[0], shared.accepted - accepted[1]]
          : ports.map((port, i) => attemptsTo(port) - before[i])
        const byStrategy = 1 + Math.floor((performance.now() - killedAt) / RETRY_MS)
        await server.restart()
        if (!isGlide) await Promise.all([own.accept(), shared.accept()])
        const [answer, answerBesides] = await Promise.all(answers)
        expect(answerBesides).toBe(answer)
        await eventually('Redis decides again', () => traffic.isDecided())
        await traffic.end()
        expect(attempts[0]).toBeLessThanOrEqual(byStrategy)
        // Two further connections of GLIDE, which reconnect by themselves, by the same strategy.
        expect(attempts[1]).toBeLessThanOrEqual(isGlide ? 3 * byStrategy : byStrategy)
        await Promise.all([own.stop(), shared.stop(), server.stop()])
      },
      30_000,
    )
  })

  // GLIDE never gives up.
  const mayGiveUp = kinds.filter(([name]) => !name.includes('GLIDE'))

  describe('a strategy that gives up after some attempts', () => {
    test.concurrent.each(mayGiveUp)('of %s gives up no earlier under 200 decisions a second', async (_, kind) => {
      const server = await RedisServer.start()
      const door = await openDoor(server)
      const client = await kind.single({ host: door.host, port: door.port }, { retryMs: 300, attempts: 4 })
      const traffic = await Traffic.start(client, [server])
      await door.refuse()
      await new Promise(done => setTimeout(done, 700))
      await door.accept()
      await eventually('Redis decides again', () => traffic.isDecided(), 5000)
      await traffic.end()
      await Promise.all([door.stop(), server.stop()])
    })

    test.concurrent.each(mayGiveUp)('of %s is reported by one warning that says what to do', async (name, kind) => {
      const server = await RedisServer.start()
      const door = await openDoor(server)
      const client = await kind.single({ host: door.host, port: door.port }, { retryMs: 20, attempts: 2 })
      const traffic = await Traffic.start(client, [server])
      await door.refuse()
      await eventually('it gives up', async () => warningsOf(door).length > 0)
      await new Promise(done => setTimeout(done, A_WHILE_MS))
      const strategy = name.startsWith('node-redis')
        ? ['reconnectStrategy', 'socket: { reconnectStrategy: retries => Math.min(retries * 50, 1000) }']
        : ['retryStrategy', 'retryStrategy: times => Math.min(times * 50, 1000)']
      expect(warningsOf(door)).toEqual([
        `The client of Redis at ${door.host}:${door.port} has given up: its ${strategy[0]} has ended its attempts to connect. The failure policy decides until it is ` +
          `connected again. Give it a strategy that never gives up, like ${strategy[1]}, and restart the process or call connect().`,
      ])
      await traffic.end()
      await server.stop()
    })
  })

  test.concurrent.each(mayGiveUp)('%s that its owner closes is not reported, connected or not', async (_, kind) => {
    const server = await RedisServer.start()
    const doors: TcpProxy[] = []
    const open = async () => {
      const door = await openDoor(server)
      doors.push(door)
      const client = (await kind.single(
        { host: door.host, port: door.port },
        { retryMs: 20, attempts: 50 },
      )) as Closable
      await eventually('Redis decides', async () => {
        const limiter = new RateLimiter({ policy: '9/1h', store: new RedisStore(client), observer: {} })
        return (await limiter.consume('k')).source === 'redis'
      })
      return { door, client }
    }
    for (const way of ['quit', 'disconnect', 'close', 'destroy'] as const) {
      const { client } = await open()
      Promise.resolve(client[way]?.()).catch(() => {})
      if (way === 'quit' || client[way] === undefined) continue
      const { door, client: retrying } = await open()
      await door.refuse()
      await new Promise(done => setTimeout(done, 50))
      Promise.resolve(retrying[way]?.()).catch(() => {})
      // While an attempt to connect is under way, and a command waits.
      const { door: shut, client: trying } = await open()
      await shut.refuse()
      trying.get('k').catch(() => {})
      trying.once('reconnecting', () => {
        Promise.resolve(trying[way]?.()).catch(() => {})
      })
    }
    await new Promise(done => setTimeout(done, A_WHILE_MS))
    expect(doors.flatMap(warningsOf)).toEqual([])
    await Promise.all([...doors.map(door => door.stop()), server.stop()])
  })
}

interface Closable extends Application {
  once(event: 'reconnecting', listener: () => void): unknown
  quit(): Promise<unknown>
  disconnect(): unknown
  close?(): unknown
  destroy?(): unknown
}

const WARNINGS: string[] = []
jest.spyOn(process, 'emitWarning').mockImplementation((text, options) => {
  if ((options as NodeJS.EmitWarningOptions | undefined)?.code === 'SPILLWAY_STORE') WARNINGS.push(String(text))
})

/** The warnings of clients that have given up at this door. */
function warningsOf({ host, port }: TcpProxy): string[] {
  return WARNINGS.filter(text => text.includes(`${host}:${port} has given up`))
}

let doors = 0

/**
 * At an address that no other door of this process ever has: its port may have been another's, whose client gives up
 * only now.
 */
function openDoor(server: RedisServer): Promise<TcpProxy> {
  doors++
  return TcpProxy.start(server.port, `127.1.${doors >> 8}.${doors & 255}`)
}
