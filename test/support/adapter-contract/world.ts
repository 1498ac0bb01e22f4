import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createServer2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import type { AddressKeyOptions } from '../../../src/http/address/client.js'
import type { HttpOptions } from '../../../src/http/rate-limit/options.js'
import type { LimiterAccess } from '../../../src/http/rate-limit/rate-limit.js'
import type { Decision } from '../../../src/limiter/core/decision.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
import { eventually } from '../eventually.js'
import { type Whole, wholeFor } from '../everywhere.js'
import { get } from '../get.js'
import { type RawClient, rawClient } from '../raw-client.js'
import { warnings } from '../warnings.js'

/** Options whose functions are given the framework's own objects, which only the adapter can read. */
export type Options = HttpOptions<[req: unknown, res: unknown]>

/** A service that answers every request it handles with the decision left on it, as JSON. */
export interface Service {
  /** Middleware, in the order in which a request passes it. */
  limiters: LimiterAccess[]
  /** true: one proxy is trusted. */
  trustProxy?: boolean | 'anybody'
  /** The service is served over HTTP/2. */
  http2?: true
  /** Runs before the limiters. */
  before?: (res: ServerResponse) => void
  /** Runs in the handler, before it answers. A stream that it returns is the answer. */
  handle?: (req: unknown, res: unknown) => Promise<Readable | void> | Readable | void
}

/** The parts that the tests of a framework provide. */
export interface Adapter {
  /** true: over this one, all that src/http decides is tested. */
  whole?: true
  rateLimit(options?: Options): LimiterAccess
  addressKey(options?: AddressKeyOptions): (req: never, res: never) => string | undefined
  /** What warnings say of its setting to believe any client about its address, if it has one. */
  trustsAnybody?: string
  /**
   * true: there is no response until a handler returns one, so that nothing can be read from it or written to it
   * before.
   */
  returnsResponses?: true
  /** true: the framework does not serve HTTP/2. */
  http1Only?: true
  /** Errors are answered with 500 and JSON: `{ code, message }`. */
  serve(service: Service): RequestListener
  /** true: every refusal is an object, whatever the client asks for. */
  refusesWithObjects?: true
  header(req: unknown, name: string): string | undefined
  /** The status of a response as it stands. */
  status(res: unknown): number
  setStatus(res: unknown, status: number): void
  responseHeader(res: unknown, name: string): string | undefined
  /** The decision that is on the request. */
  decision(req: unknown): Decision | undefined
  /** Answers with a text, as a handler of the framework does; what it returns is returned by the handler. */
  answer(res: unknown, text: string): unknown
}

export const START = 1_700_000_000_000

/** A server of a test, and clients that write their requests by hand. */
interface Listening {
  readonly port: number
  visit(options?: { reads?: boolean }): Promise<RawClient>
  /** The server has noticed that all clients have left. */
  left(): Promise<void>
}

/** What a test of the contract works with: services on one store, whose time stands still until it is told to move. */
export class World {
  /** Declares what does not depend on the adapter. */
  readonly whole: Whole
  clock!: ManualClock
  store!: MemoryStore
  /** How many requests have come through to the service. */
  handled = 0
  readonly warned = warnings()
  /** What is closed at the end of a test. */
  readonly #closers: Array<() => void> = []

  constructor(
    readonly name: string,
    readonly adapter: Adapter,
  ) {
    this.whole = wholeFor(adapter.whole === true)
  }

  open(): void {
    this.clock = new ManualClock(START)
    this.store = new MemoryStore({ clock: this.clock })
    this.handled = 0
  }

  close(): void {
    for (const close of this.#closers.splice(0).reverse()) close()
    this.store.close()
  }

  /** Serves on a free port, until the end of the test. */
  async listen(app: RequestListener, over?: 'HTTP/2'): Promise<Listening> {
    const server = over ? createServer2(app as never) : createServer(app)
    const connections = new Set<unknown>()
    server.on('connection', socket => {
      connections.add(socket)
      socket.on('close', () => connections.delete(socket))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    this.#closers.push(() => {
      if (!over) (server as Server).closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const visit = async (options?: { reads?: boolean }): Promise<RawClient> => {
      const client = await rawClient(port, options)
      this.#closers.push(() => client.leave())
      return client
    }
    const left = () => eventually('the server has noticed that all have left', async () => connections.size === 0)
    return { port, visit, left }
  }

  /** The address that a request claims as its origin. */
  user = (req: unknown) => this.adapter.header(req, 'x-user')

  limited = (options: Options = {}): LimiterAccess => this.adapter.rateLimit({ store: this.store, ...options })

  serve = (limiters: LimiterAccess | LimiterAccess[], service: Partial<Service> = {}): RequestListener => {
    const handle = (req: unknown, res: unknown) => {
      this.handled++
      return service.handle?.(req, res)
    }
    return this.adapter.serve({ ...service, limiters: [limiters].flat(), handle })
  }

  get = get<Decision & Record<string, unknown>>

  /** The message of a refusal: its text, or the detail of an object. */
  said = (answer: { text: string; body: Record<string, unknown> }): string =>
    (this.adapter.refusesWithObjects ? `${answer.body.detail}` : answer.text).trimEnd()

  /** The statuses of so many requests, one after the other. */
  statuses = async (app: RequestListener, count: number, headers: Record<string, string> = {}): Promise<number[]> => {
    const all: number[] = []
    for (let i = 0; i < count; i++) all.push((await this.get(app, headers)).status)
    return all
  }
}
