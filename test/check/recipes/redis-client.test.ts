import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { RepositoryCopy } from './repository-copy.js'

const CLIENT = `
import type { ClientPort, OpenBlocking, OpenListening, ScriptArgument } from './client.js'

/** A client of a shape that no other has: commands as lists, a flag, and lists of listeners. */
export interface WireLike {
  readonly online: boolean
  readonly whenOnline: Array<() => void>
  readonly address: string
  send(command: readonly ScriptArgument[]): Promise<unknown>
  another(): WireLike & { listen(hear: (channel: string, text: string) => void): void; hangUp(): void; open(): Promise<void> }
}

export function isWire(client: object): client is WireLike {
  const { online, whenOnline, send } = client as Partial<WireLike>
  return typeof online === 'boolean' && Array.isArray(whenOnline) && typeof send === 'function'
}

export function wirePort(client: WireLike): ClientPort {
  let wasOnline = false
  const script = (command: string, text: string, keys: readonly string[], args: readonly ScriptArgument[]) =>
    client.send([command, text, String(keys.length), ...keys, ...args])
  return {
    cluster: false,
    sendsAgain: false,
    evalsha: (sha1, keys, args) => script('EVALSHA', sha1, keys, args),
    eval: (source, keys, args) => script('EVAL', source, keys, args),
    state() {
      wasOnline ||= client.online
      return client.online ? 'ready' : wasOnline ? 'down' : 'starting'
    },
    open() {},
    onReady(listener) {
      client.whenOnline.push(listener)
      return () => client.whenOnline.splice(client.whenOnline.indexOf(listener), 1)
    },
    onLost() {},
    slotOf: () => 0,
    serverOf: () => '',
  }
}

export const wireListening =
  (client: WireLike): OpenListening =>
  async ({ onMessage }) => {
    const connection = client.another()
    await connection.open()
    connection.listen(onMessage)
    return {
      subscribe: channels => connection.send(['SUBSCRIBE', ...channels]),
      unsubscribe: channels => connection.send(['UNSUBSCRIBE', ...channels]),
      ping: () => connection.send(['PING']),
      close: () => connection.hangUp(),
    }
  }

export const wireBlocking =
  (client: WireLike): OpenBlocking =>
  () => {
    const connection = client.another()
    return {
      connect: () => connection.open(),
      async pop(key, seconds) {
        const reply = await connection.send(['BZPOPMIN', key, String(seconds)])
        return (reply as string[] | null)?.[1]
      },
      close: () => connection.hangUp(),
    }
  }
`

/** The edits of docs/architecture.md, "Add a Redis client". */
const LINES: ReadonlyArray<readonly [file: string, after: RegExp, text: string]> = [
  ['src/redis/clients.ts', /^/, "import { isWire, wireBlocking, wireListening, wirePort } from './wire.js'\n"],
  ['src/redis/clients.ts', /(?<=function newPort\(.+\{\n)/, '  if (isWire(client)) return wirePort(client)\n'],
  ['src/redis/clients.ts', /(?<=function listeningOf\(.+\{\n)/, '  if (isWire(client)) return wireListening(client)\n'],
  ['src/redis/clients.ts', /(?<=function blockingOf\(.+\{\n)/, '  if (isWire(client)) return wireBlocking(client)\n'],
  ['src/redis/clients.ts', /(?<=function clientName\(.+\{\n)/, '  if (isWire(client)) return client.address\n'],
]

const TEST = `
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Redis } from 'ioredis'
import { DelayQueue } from '../../src/delay-queue/delay-queue.js'
import { clientName } from '../../src/redis/clients.js'
import type { WireLike } from '../../src/redis/wire.js'
import { Semaphore } from '../../src/semaphore/semaphore.js'
import { RedisStore } from '../../src/stores/redis/redis-store.js'
import { RedisServer } from '../support/redis-server.js'
import { describeStore } from '../support/store-contract.js'

class Wire implements WireLike {
  online = false
  readonly whenOnline: Array<() => void> = []
  readonly #redis: Redis
  constructor(readonly server: RedisServer) {
    this.#redis = server.client({ lazyConnect: true })
    this.#redis.on('ready', () => {
      this.online = true
      for (const listener of this.whenOnline) listener()
    })
    this.#redis.on('close', () => {
      this.online = false
    })
  }
  get address() {
    return \`\${this.server.host}:\${this.server.port}\`
  }
  async open() {
    await this.#redis.connect()
  }
  send([name, ...args]: readonly (string | Buffer)[]) {
    return this.#redis.call(String(name), ...args)
  }
  listen(hear: (channel: string, text: string) => void) {
    this.#redis.on('message', hear)
  }
  hangUp() {
    this.#redis.disconnect()
  }
  another() {
    return new Wire(this.server)
  }
}

let redis: RedisServer
let client: Wire
let stores = 0
beforeAll(async () => {
  redis = await RedisServer.start()
  client = new Wire(redis)
  await client.open()
})
afterAll(() => redis.stop())

describeStore('RedisStore over the new client', {
  make: clock => new RedisStore(client, { clock, prefix: \`store \${stores++}\` }),
  promises: 100,
  properties: 10,
})

test('a semaphore wakes waiters, a queue delivers, and messages name the server', async () => {
  const [one, other] = [new Semaphore(client, 'jobs', { permits: 1 }), new Semaphore(client, 'jobs')]
  const lease = await one.acquire()
  const next = other.acquire({ timeout: '10s' })
  await other.availablePermits()
  await lease.release()
  await (await next).release()
  await Promise.all([one.close(), other.close()])

  const queue = new DelayQueue<string>(client, 'mail')
  const waiting = queue.receive({ wait: '10s' })
  await queue.push('hello', { delay: 50 })
  const [delivery] = await waiting
  expect(delivery.payload).toBe('hello')
  await delivery.ack()
  await queue.close()
  expect(clientName(client)).toBe(\`127.0.0.1:\${redis.port}\`)
})
`

describe('a Redis client that is added as docs/architecture.md says', () => {
  let copy: RepositoryCopy
  beforeAll(() => {
    copy = new RepositoryCopy()
    for (const [file, after, text] of LINES) copy.insert(file, after, text)
    copy.write('src/redis/wire.ts', CLIENT)
    copy.write('test/redis/wire.test.ts', TEST)
  }, 60_000)
  afterAll(() => copy.remove())

  test('compiles with changes in the files of the recipe only', () => {
    expect(copy.compilerErrors(['src', 'test/redis/wire.test.ts'])).toBe('')
  }, 120_000)

  test('passes the contract of stores, listens for a semaphore and blocks for a queue', () => {
    expect(copy.passedTests(['test/redis/wire'], '')[0]).toBeGreaterThan(90)
  }, 120_000)
})
