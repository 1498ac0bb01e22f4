import { StoreError } from '../limiter/core/errors.js'
import { Wait } from '../limiter/core/wait.js'
import type { Guarded } from '../limiter/guarded.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/clients.js'
import { keyRoot } from '../redis/keys.js'
import { outgoingPause } from '../redis/scripts.js'
import { TimelyScripts } from '../redis/timely-scripts.js'

/** The greatest age of an answer from Redis: a pause reported by another process is known within this time. */
const FRESH_MS = 200
/** How often to look while calls wait for the end of a pause: another process may have ended it. */
export const LOOK_EVERY_MS = 1000
/** After a resume, calls that waited leave at random within this time, so that they do not all leave at one moment. */
const RESUME_JITTER_MS = 250

/** The end of a partner's requested pause, as known to this process. */
export class Pause {
  /** The pause that the partner asked this process for, by `performance.now()`. */
  protected own: { readonly begunAt: number; readonly endsAt: number } | undefined
  protected readonly sleepers = new Set<Wait<boolean>>()

  /** The ms left of the pause; 0: none. */
  get leftMs(): number {
    return Math.max(0, (this.own?.endsAt ?? 0) - performance.now())
  }

  /** The partner has asked for a pause of `ms` from now on. */
  begin(ms: number): void {
    const begunAt = performance.now()
    // What Redis has told may have been ended meanwhile, so only the process's own pause is compared.
    if (begunAt + ms > (this.own?.endsAt ?? 0)) this.own = { begunAt, endsAt: begunAt + ms }
  }

  /** Ends the pause. Calls that sleep leave soon. */
  async resume(): Promise<void> {
    this.own = undefined
    this.wake()
  }

  /** Reads the pauses of other processes, if there are any. Never rejects. */
  async look(): Promise<void> {}

  /** Resolves after `ms`, or soon after a resume. Rejects with the reason of the signal. */
  async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const endsAt = performance.now() + ms
    const wait: Wait<boolean> = new Wait<boolean>({ timeoutMs: ms, signal }, () => wait.resolve(false))
    this.sleepers.add(wait)
    try {
      if (!(await wait.promise)) return
    } finally {
      this.sleepers.delete(wait)
    }
    const leftMs = Math.max(0, endsAt - performance.now())
    const jitter: Wait<void> = new Wait<void>(
      { timeoutMs: Math.min(leftMs, Math.random() * RESUME_JITTER_MS), signal },
      () => jitter.resolve(),
    )
    await jitter.promise
  }

  /** The pause was ended: those that sleep look again. */
  protected wake(): void {
    for (const wait of this.sleepers) wait.resolve(true)
  }
}

interface RedisPauseOptions {
  readonly client: RedisClient
  readonly partner: string
  readonly prefix: string
  readonly guarded: Guarded
  readonly longestMs: number
}

/**
 * The pause of a partner over all processes, as Redis knows it. A pause that Redis has not confirmed yet is this
 * process's own, and is reported with its age, so that it stays ended if it was resumed meanwhile. While Redis is gone
 * each process knows only its own.
 */
export class RedisPause extends Pause {
  readonly #port: ClientPort
  readonly #key: string
  readonly #guarded: Guarded
  readonly #longestMs: number
  /** By `performance.now()`. */
  #sharedEndsAt = Number.NEGATIVE_INFINITY
  /** By the server's clock; undefined before the first answer. */
  #resumedAt: number | undefined
  #lookedAt = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | undefined
  #timer: ReturnType<typeof setInterval> | undefined

  constructor({ client, partner, prefix, guarded, longestMs }: RedisPauseOptions) {
    super()
    this.#port = portOf(client, 'politeFetch')
    this.#key = keyRoot('politeFetch', 'pause', `outgoing:${partner}`, prefix)
    this.#guarded = guarded
    this.#longestMs = longestMs
  }

  override get leftMs(): number {
    return Math.max(super.leftMs, this.#sharedEndsAt - performance.now())
  }

  override begin(ms: number): void {
    super.begin(ms)
    void this.answers()
  }

  /**
   * Rejects with `StoreError` if Redis does not answer: then the pause is over in this process only, until Redis
   * answers again.
   */
  override async resume(): Promise<void> {
    await super.resume()
    this.#sharedEndsAt = Number.NEGATIVE_INFINITY
    if (!this.#guarded.mayAsk()) throw new StoreError('politeFetch: resume: Redis does not answer')
    await this.#ask('resume')
  }

  /** Simultaneous calls share one request. */
  override async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < FRESH_MS) return
    this.#looking ??= this.answers().then(() => {
      this.#looking = undefined
    })
    // During an outage no call waits for Redis.
    if (!this.#guarded.failing) await this.#looking
  }

  override async sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    this.#timer ??= setInterval(() => this.look(), LOOK_EVERY_MS).unref()
    try {
      await super.sleep(ms, signal)
    } finally {
      if (this.sleepers.size === 0) {
        clearInterval(this.#timer)
        this.#timer = undefined
      }
    }
  }

  /** Reports what Redis does not know, and reads the rest. False: Redis does not answer. */
  async answers(): Promise<boolean> {
    if (!this.#guarded.mayAsk()) return false
    try {
      await this.#ask(this.own === undefined ? 'look' : 'begin')
      return true
    } catch {
      return false
    }
  }

  async #ask(verb: 'look' | 'begin' | 'resume'): Promise<void> {
    const askedAt = performance.now()
    const { own } = this
    const pauseOf = () => {
      if (own === undefined || verb !== 'begin') return ['0', '0']
      const ageMs = Math.floor(performance.now() - own.begunAt)
      return [String(Math.ceil(own.endsAt - own.begunAt)), String(ageMs)]
    }
    const call = TimelyScripts.of(this.#port).run({
      script: outgoingPause,
      does: 'share the pause of a partner',
      keys: [this.#key],
      args: until => [verb, ...pauseOf(), String(this.#longestMs), until],
      endsAt: askedAt + this.#guarded.deadlineMs,
      server: this.#port.serverOf(this.#port.slotOf(this.#key)),
      byServerClock: true,
    })
    const [, leftMs, resumedAt] = (await this.#guarded.hold(call)) as [number, number, number]
    // An answer that was overtaken by a later one tells nothing new.
    if (askedAt < this.#lookedAt) return
    this.#lookedAt = askedAt
    if (verb === 'begin' && this.own === own) this.own = undefined
    // From now on and not from the question: a pause must not end here before it ends in Redis.
    this.#sharedEndsAt = performance.now() + leftMs
    if (this.#resumedAt !== resumedAt) this.wake()
    this.#resumedAt = resumedAt
  }
}
