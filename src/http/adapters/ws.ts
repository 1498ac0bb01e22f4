import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import type { Decision } from '../../limiter/core/decision.js'
import { costOf, PolicyError, shown } from '../../limiter/core/errors.js'
import { getOrMake } from '../../limiter/core/maps.js'
import { checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { MemoryStore } from '../../limiter/memory/memory-store.js'
import { LIMITER_OPTIONS } from '../../limiter/options.js'
import { RateLimiter, type RateLimiterOptions } from '../../limiter/rate-limiter.js'
import { type GivenKey, keyText } from '../call-option.js'
import { checkFits } from '../fitting-cost.js'
import { givenLimiter } from '../given-limiter.js'
import { NEWCOMERS } from '../newcomers.js'
import { after, isPromise, type SyncOrAsync } from '../sync-or-async.js'

export type { GivenKey } from '../call-option.js'

/** A `WebSocket` of `ws`, or any emitter of 'message' events. */
export interface MessageSocket extends Pick<EventEmitter, 'emit'> {
  /** Closes the socket. */
  close?(code?: number, reason?: string): void
  /** Stops reading from the socket. */
  pause?(): void
  /** Resumes reading. */
  resume?(): void
}

/** The options of `limitMessages`: those of `RateLimiter`, or a `limiter`, and the following. */
export interface MessageLimitOptions<Data = unknown> extends Partial<RateLimiterOptions> {
  /** Instead of the options of `RateLimiter`. */
  limiter?: RateLimiter
  /**
   * The key by which messages are counted together, like `user.id`, or a function of the message; if it returns
   * undefined, the message is not limited. Default: each socket separately.
   */
  key?: string | number | ((data: Data) => GivenKey)
  /** The cost of a message; integer ≥ 0, default 1. */
  cost?: number | ((data: Data) => number)
  /**
   * What happens to a message over the limit. It reaches no listener. 'drop' (default): nothing more. 'close': the
   * socket is closed with code 1008, and its later messages are dropped. A function receives the decision and the
   * message; what it throws, or rejects with, is emitted as 'error'.
   */
  onLimit?: 'drop' | 'close' | ((decision: Decision, data: Data) => void)
}

const OPTIONS: OptionNames<MessageLimitOptions> = {
  ...LIMITER_OPTIONS,
  limiter: true,
  key: true,
  cost: true,
  onLimit: true,
}

/** RFC 6455: the code for a message that violates the policy. */
const POLICY_VIOLATION = 1008
/** While this many messages wait for their decision, the socket is not read. */
const MOST_WAITING = 64
/** The store for all sockets without their own; they count together by their keys. */
let shared: MemoryStore | undefined

/**
 * Limits the messages of a socket: messages over the limit do not reach its 'message' listeners. Messages keep their
 * order while a store is asked. The returned function ends the limit. Checks its options: `PolicyError`, or `CostError`
 * for a constant cost. Errors of the functions in the options, and a wrong cost, are emitted as 'error'.
 */
export function limitMessages<Data = unknown>(socket: MessageSocket, options: MessageLimitOptions<Data>): () => void {
  const limit = new MessageLimit(socket, options)
  return () => limit.end()
}

export default limitMessages

class MessageLimit<Data> {
  readonly #socket: MessageSocket
  readonly #emit: MessageSocket['emit']
  /** What `emit` was before; undefined: inherited. */
  readonly #own: PropertyDescriptor | undefined
  readonly #heardEmit: MessageSocket['emit']
  readonly #limiter: RateLimiter | LimiterUse
  readonly #options: MessageLimitOptions<Data>
  readonly #ownKey = randomUUID()
  /** Events behind a message that is being decided. */
  #waiting: Array<() => SyncOrAsync<void>> = []
  #busy = false
  #paused = false
  #closed = false
  #ended = false

  constructor(socket: MessageSocket, options: MessageLimitOptions<Data>) {
    checkOptions('limitMessages', options, OPTIONS, "{ policy: '10/1s', onLimit: 'close' }", NEWCOMERS)
    const { onLimit = 'drop', key, cost = 1 } = options
    if (onLimit !== 'drop' && onLimit !== 'close' && typeof onLimit !== 'function') {
      throw new PolicyError(`limitMessages: onLimit ${shown(onLimit)}: expected 'drop', 'close' or a function`)
    }
    if (typeof socket?.emit !== 'function' || (onLimit === 'close' && typeof socket.close !== 'function')) {
      throw new PolicyError(
        `limitMessages: socket ${shown(socket)}: expected a WebSocket of ws, or another emitter of 'message'`,
      )
    }
    this.#limiter = limiterOf(options)
    if (this.#limiter instanceof LimiterUse) DROPPED.register(this, this.#limiter)
    if (typeof cost !== 'function') costOf(cost, 'limitMessages: cost')
    if (typeof key !== 'function') keyText(key, 'limitMessages')
    checkFits('limitMessages', 'message', cost, this.#joined)
    this.#options = { ...options, onLimit }
    this.#socket = socket
    this.#emit = socket.emit.bind(socket)
    this.#own = Object.getOwnPropertyDescriptor(socket, 'emit')
    this.#heardEmit = (event: string | symbol, ...values: unknown[]) => this.#heard(event, values)
    socket.emit = this.#heardEmit
  }

  /** From now on all messages pass; waiting messages come first, in their order. */
  end(): void {
    this.#ended = true
    this.#leave()
    if (!this.#busy) this.#giveBack()
  }

  /** The socket's own `emit`, unless somebody else has replaced ours meanwhile: then ours passes everything on. */
  #giveBack(): void {
    if (this.#socket.emit !== this.#heardEmit) return
    if (this.#own === undefined) Reflect.deleteProperty(this.#socket, 'emit')
    else Object.defineProperty(this.#socket, 'emit', this.#own)
  }

  get #joined(): RateLimiter {
    return this.#limiter instanceof LimiterUse ? this.#limiter.limiter : this.#limiter
  }

  /** The socket needs its limiter no longer, unless more messages come. */
  #leave(): void {
    if (this.#limiter instanceof LimiterUse) this.#limiter.leave()
  }

  #emitClose(values: unknown[]): void {
    this.#leave()
    this.#emit('close', ...values)
  }

  #heard(event: string | symbol, values: unknown[]): boolean {
    if ((event !== 'message' && event !== 'close') || (this.#ended && !this.#busy)) return this.#emit(event, ...values)
    const act = event === 'message' ? () => this.#decide(values) : () => this.#emitClose(values)
    if (!this.#busy) this.#run(act)
    else {
      this.#waiting.push(act)
      if (this.#waiting.length === MOST_WAITING && this.#socket.pause !== undefined) {
        this.#paused = true
        this.#socket.pause()
      }
    }
    return true
  }

  #run(act: () => SyncOrAsync<void>): void {
    const done = act()
    if (!isPromise(done)) return
    this.#busy = true
    const next = () => this.#next()
    // An error of a listener is uncaught, as if it had been called synchronously.
    done.then(next, error => {
      process.nextTick(() => {
        throw error
      })
      next()
    })
  }

  #next(): void {
    this.#busy = false
    while (!this.#busy) {
      const act = this.#waiting.shift()
      if (act === undefined) break
      this.#run(act)
    }
    if (this.#ended && !this.#busy) this.#giveBack()
    if (this.#busy || !this.#paused) return
    this.#paused = false
    this.#socket.resume?.()
  }

  #decide(values: unknown[]): SyncOrAsync<void> {
    if (this.#ended) return void this.#emit('message', ...values)
    if (this.#closed) return
    const data = values[0] as Data
    let decided: SyncOrAsync<Decision | undefined>
    try {
      decided = this.#ask(data)
    } catch (error) {
      return this.#fail(error)
    }
    if (!isPromise(decided)) return this.#obey(decided, data, values)
    return decided.then(
      decision => this.#obey(decision, data, values),
      error => this.#fail(error),
    )
  }

  #fail(error: unknown): void {
    this.#emit('error', error)
  }

  #ask(data: Data): SyncOrAsync<Decision | undefined> {
    const { key = this.#ownKey, cost = 1 } = this.#options
    const text = keyText(typeof key === 'function' ? key(data) : key, 'limitMessages')
    if (text === undefined) return undefined
    return this.#joined.decide(text, typeof cost === 'function' ? cost(data) : cost)
  }

  #obey(decision: Decision | undefined, data: Data, values: unknown[]): SyncOrAsync<void> {
    if (decision === undefined || decision.allowed) {
      const delayMs = decision?.delayMs ?? 0
      const wait = delayMs > 0 ? new Promise<void>(resolve => setTimeout(resolve, delayMs)) : undefined
      return after(wait, () => void this.#emit('message', ...values))
    }
    const { onLimit } = this.#options
    if (typeof onLimit === 'function') this.#tell(onLimit, decision, data)
    else if (onLimit === 'close') {
      this.#closed = true
      this.#socket.close?.(POLICY_VIOLATION, 'Too many messages')
    }
  }

  /** An `async` function is not waited for: later messages do not depend on what it does. */
  #tell(onLimit: (decision: Decision, data: Data) => unknown, decision: Decision, data: Data): void {
    try {
      const told = onLimit(decision, data)
      if (isPromise(told)) told.then(undefined, error => this.#fail(error))
    } catch (error) {
      this.#fail(error)
    }
  }
}

/**
 * The limiter that was given, or a use of the one that sockets with equal options share. Checks the options of the
 * limiter.
 */
function limiterOf<Data>(options: MessageLimitOptions<Data>): RateLimiter | LimiterUse {
  const given = givenLimiter('limitMessages', options, Object.keys(LIMITER_OPTIONS))
  if (given !== undefined) return given
  const { limiter: _limiter, key: _key, cost: _cost, onLimit: _onLimit, ...own } = options
  shared ??= new MemoryStore()
  return new LimiterUse({ ...own, store: own.store === undefined ? shared : own.store } as RateLimiterOptions)
}

/** A limiter, and the number of sockets that use it. */
interface SharedLimiter {
  readonly limiter: RateLimiter
  users: number
}

/** By store, then by the other options. Without users a limiter is closed and forgotten. */
const SHARED = new WeakMap<object, Map<string, SharedLimiter>>()

/**
 * One socket's use of the limiter for its options. Sockets with equal options share a limiter, so that their messages
 * share script calls and remembered denials.
 */
class LimiterUse {
  readonly #store: object
  readonly #options: RateLimiterOptions
  readonly #text: string
  #shared: SharedLimiter | undefined

  constructor(options: RateLimiterOptions) {
    this.#store = options.store as object
    this.#options = options
    this.#text = textOf(options)
    this.#shared = this.#join()
  }

  /** Joins again after `leave`: an emitter may go on after its 'close'. */
  get limiter(): RateLimiter {
    this.#shared ??= this.#join()
    return this.#shared.limiter
  }

  leave(): void {
    const shared = this.#shared
    this.#shared = undefined
    if (shared === undefined || --shared.users > 0) return
    SHARED.get(this.#store)?.delete(this.#text)
    shared.limiter.close().catch(() => {})
  }

  #join(): SharedLimiter {
    const known = SHARED.get(this.#store)?.get(this.#text)
    const joined = known ?? { limiter: new RateLimiter(this.#options), users: 0 }
    if (known === undefined) getOrMake(SHARED, this.#store, () => new Map()).set(this.#text, joined)
    joined.users++
    return joined
  }
}

/** An emitter may be dropped without 'close'. */
const DROPPED = new FinalizationRegistry<LimiterUse>(use => use.leave())

/** The options as text: equal for equal options. Functions and observers are equal only to themselves. */
function textOf({ store: _store, ...options }: RateLimiterOptions): string {
  const { observer } = options
  try {
    return JSON.stringify({ ...options, observer: observer && idOf(observer) }, (_, value) =>
      typeof value === 'function' ? idOf(value) : value,
    )
  } catch {
    // Not even a valid policy has no JSON: the limiter reports what is wrong.
    return String(idOf(options))
  }
}

const IDS = new WeakMap<object, number>()
let ids = 0

function idOf(value: object): number {
  return getOrMake(IDS, value, () => ++ids)
}
