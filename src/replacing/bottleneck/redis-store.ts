import { RetryDelay } from '../../limiter/core/alarms.js'
import type { Clock } from '../../limiter/core/clock.js'
import { processId } from '../../limiter/core/short-key.js'
import type { ClientPort, RedisClient } from '../../redis/client.js'
import { isFault } from '../../redis/replies.js'
import { runScript } from '../../redis/script.js'
import { bottleneckDelete, bottleneckTick, publish } from '../../redis/scripts.js'
import { Subscriber, type Subscription } from '../../redis/subscriber.js'
import type { Job } from './job.js'
import type { Limiter } from './limiter.js'
import { BottleneckError, type LimiterSettings, STORE_DEFAULTS, type StoreOptions, withDefaults } from './options.js'
import { type Answer, BLOCKED, type Errand, type LimiterStore, type Tick } from './store.js'

/** How long the places of a process that died stay taken: `timeout`, within these bounds. */
const SHORTEST_LEASE_MS = 3000
const LONGEST_LEASE_MS = 30_000
/** Between the asks of clients that are called together. */
const STEP_MS = 2
/** Most ms that closing waits for Redis. */
const FAREWELL_MS = 1000

let stores = 0

/** A reply of the script bottleneck_tick. */
type Reply = readonly [
  waits: readonly number[],
  verdicts: readonly number[],
  running: string,
  reservoir: string,
  maxConcurrent: string,
  strategy: number,
  againMs: number,
  leaseMs: number,
  blocks: number,
  result: string,
]

/** The connection that a store uses. */
interface StoreConnection {
  readonly client: RedisClient
  readonly clients: object
  readonly port: ClientPort
  readonly limiters: Record<string, Limiter>
  /** Resolves when the client is connected for the first time, or closed. */
  readonly opened: Promise<void>
  readonly isClosed: boolean
  disconnect(flush?: boolean): Promise<void>
}

/** The keys of a limiter, in one slot of a cluster, and its channel. Different ids have different keys. */
export function keysOf(id: string): readonly string[] {
  const root = `spillway:{${encodeURIComponent(id.replace(/\p{Cs}/gu, '\ufffd'))}}:bottleneck`
  return [root, `${root}:clients`, `${root}:line`, `${root}:facts`, `${root}:channel`]
}

/** The id of the limiter whose state is under this key. */
export function idOf(key: string): string {
  return decodeURIComponent(key.slice(key.indexOf('{') + 1, key.indexOf('}')))
}

/**
 * The state of a limiter in Redis, shared by all processes; all moments are by the server's clock. The queue stays
 * here. While this process has places or waiting jobs it renews its lease; while it has neither it sends nothing.
 */
export class RedisStore implements LimiterStore {
  readonly storeOptions: StoreOptions
  readonly timeout: number | null
  readonly clientId = `${processId()}-${(stores++).toString(36)}`
  readonly ready: Promise<object>
  readonly #limiter: Limiter
  readonly #keys: readonly string[]
  readonly #port: ClientPort
  readonly #leaseMs: number
  readonly #subscription: Subscription | undefined
  /** Resolves when scripts can be sent. */
  readonly #begun: Promise<void>
  /** Resolves when no message can be missed, or none is heard any more. */
  readonly #listens: Promise<void>
  #live = () => {}
  #calls = 0
  #blocks = -1
  #isClosed = false

  constructor(
    readonly connection: StoreConnection,
    limiter: Limiter,
    options: LimiterSettings,
    readonly ownsConnection: boolean,
    /** For tests. Default: the server's. */
    readonly clock?: Clock,
  ) {
    this.storeOptions = withDefaults(options, STORE_DEFAULTS)
    this.timeout = options.timeout ?? null
    this.#leaseMs = Math.min(LONGEST_LEASE_MS, Math.max(SHORTEST_LEASE_MS, this.timeout ?? LONGEST_LEASE_MS))
    this.#limiter = limiter
    this.#keys = keysOf(String(limiter.id))
    this.#port = connection.port
    connection.limiters[this.clientId] = limiter
    this.#begun = connection.opened.then(() => {
      // Sent before the first tick, over the same connection.
      if (options.clearDatastore !== true || connection.isClosed) return
      this.#run(bottleneckDelete, ['']).catch(error => this.#tell(error))
    })
    this.#listens = new Promise(resolve => {
      this.#live = resolve
    })
    this.#subscription = Subscriber.of(connection.client)?.subscription(this.#keys[4], {
      hear: text => this.#hear(text),
      live: () => {
        this.#live()
        // A call may have been missed.
        limiter._ask()
      },
      refused: error => {
        this.#live()
        this.#tell(error)
      },
    })
    if (this.#subscription === undefined) this.#live()
    else this.#subscription.hold()
    // The first tick: it makes the state.
    this.ready = Promise.all([limiter.running(), this.#listens]).then(() => this.clients)
    this.ready.catch(() => {})
  }

  get clients(): object {
    return this.connection.clients
  }

  get channel(): string {
    return this.#keys[4]
  }

  async tick(tick: Tick): Promise<Answer> {
    await this.#begun
    if (this.#calls > 0) await this.#listens
    const call = this.#callOf(tick)
    const delay = new RetryDelay()
    for (let settings = ''; ; ) {
      if (this.connection.isClosed) {
        if (tick.received.length === 0 && tick.errand === undefined) return NOTHING
        throw new BottleneckError('This limiter has been disconnected')
      }
      try {
        const reply = (await this.#run(bottleneckTick, [...call, settings, String(this.clock?.now() ?? '')])) as
          | Reply
          | []
        if (reply.length > 0) return this.#answerOf(reply as Reply, tick.errand)
        // Whoever leaves does not make it again.
        if (tick.errand?.verb === 'leave') return { ...NOTHING, result: 1 }
        // The first one of all processes, or the state was deleted.
        settings = settingsText(this.storeOptions)
      } catch (error) {
        if (isFault(error)) throw error
        if (this.connection.isClosed) continue
        this.#tell(error)
        await new Promise(resolve => setTimeout(resolve, delay.next()))
      }
    }
  }

  #callOf({ ended, heads, queued, received, held, longestMs, errand }: Tick): string[] {
    const value = errand?.changes === undefined ? String(errand?.value ?? '') : settingsText(errand.changes)
    const numbers = [++this.#calls, this.#leaseMs, this.timeout ?? -1, held, Math.ceil(longestMs), ended, queued]
    return [
      this.clientId,
      ...numbers.map(String),
      jobsText(heads),
      jobsText(received),
      errand?.verb ?? '',
      value,
      String(this.#blocks),
    ]
  }

  #answerOf(reply: Reply, errand: Errand | undefined): Answer {
    const [waits, verdicts, running, reservoir, maxConcurrent, strategy, againMs, leaseMs, blocks, result] = reply
    // Its own blocks drop the queue by their verdicts, after what was launched before them.
    const own = verdicts.filter(verdict => verdict === BLOCKED).length
    const dropsQueue = this.#blocks >= 0 && blocks - own > this.#blocks
    this.#blocks = blocks
    if (errand?.verb === 'set' && result !== '-') Object.assign(this.storeOptions, errand.changes)
    return {
      waits,
      verdicts,
      running: Number(running),
      reservoir: numberOf(reservoir),
      maxConcurrent: numberOf(maxConcurrent),
      strategy,
      againMs,
      renewMs: leaseMs / 3,
      dropsQueue,
      result: resultOf(errand?.verb, result),
    }
  }

  #hear(text: string): void {
    const kind = text.slice(0, text.indexOf(':'))
    const rest = text.slice(kind.length + 1)
    if (kind === 'message') this.#limiter._hear(rest)
    else if (kind === 'deleted') this.#limiter._deleted?.()
    else if (kind === 'blocked') this.#limiter._ask()
    else {
      const [client, place] = rest.split(' ')
      if (client !== this.clientId) return
      // Several are called at once: whoever stands first in line asks first.
      if (place === '0') this.#limiter._ask()
      else setTimeout(() => this.#limiter._ask(), STEP_MS * Number(place))
    }
  }

  async publish(message: string): Promise<void> {
    await this.ready
    await runScript(this.#port, publish, [], [this.channel, `message:${message}`])
  }

  async disconnect(flush: boolean): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true
      await this.leave()
    }
    if (this.ownsConnection) await this.connection.disconnect(flush)
  }

  /** Stops listening, and no longer stands in line. */
  async leave(): Promise<void> {
    delete this.connection.limiters[this.clientId]
    this.#subscription?.release()
    this.#subscription?.close()
    this.#live()
    if (this.#port.state() !== 'ready' || this.#calls === 0) return
    const left = this.#limiter._leave().catch(() => {})
    let timer: ReturnType<typeof setTimeout> | undefined
    const given = new Promise(resolve => {
      timer = setTimeout(resolve, FAREWELL_MS)
    })
    await Promise.race([left, given])
    clearTimeout(timer)
  }

  #run(script: Parameters<typeof runScript>[1], args: readonly string[]): Promise<unknown> {
    return runScript(this.#port, script, this.#keys, args)
  }

  #tell(error: unknown): void {
    void this.#limiter.Events.trigger('error', error)
  }
}

const NOTHING: Answer = {
  waits: [],
  verdicts: [],
  result: undefined,
  running: 0,
  reservoir: null,
  maxConcurrent: null,
  strategy: 0,
  againMs: Number.POSITIVE_INFINITY,
  renewMs: Number.POSITIVE_INFINITY,
  dropsQueue: false,
}

function jobsText(jobs: readonly Job[]): string {
  return jobs.map(({ options }) => `${options.weight} ${options.priority} ${options.expiration ?? -1} `).join('')
}

function settingsText(settings: Partial<StoreOptions>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${value ?? '-'} `)
    .join('')
}

/** As Lua writes it. */
function numberOf(text: string): number | null {
  return text === '-' ? null : Number(text.replace('inf', 'Infinity'))
}

function resultOf(verb: Errand['verb'] | undefined, text: string): number | boolean | null | undefined {
  if (text === '-') return undefined
  if (verb === 'check') return text === '1'
  return text === 'none' ? null : numberOf(text)
}
