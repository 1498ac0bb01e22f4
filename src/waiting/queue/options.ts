import type { Clock } from '../../limiter/core/clock.js'
import { type Duration, parseDurationOrZero, parseOption } from '../../limiter/core/duration.js'
import { PolicyError, shown } from '../../limiter/core/errors.js'
import { type Observer, parseObserver } from '../../limiter/core/observer.js'
import { checkClock, checkInteger, checkObject, checkOptions, type OptionNames } from '../../limiter/core/options.js'
import { randomText } from '../../limiter/core/short-key.js'
import { type Backoff, type BackoffMs, LONGEST_DELAY_MS, parseBackoff } from './backoff.js'
import type { PushRequest } from './push-batcher.js'
import { recordBody, textOf } from './record.js'

/** Options of a `DelayQueue`: use the same in all processes. */
export interface DelayQueueOptions<T> {
  /**
   * How long a delivery belongs to one consumer: a message not settled by then is delivered again. Default '30s'; more
   * than 0, at most 400 years.
   */
  visibility?: Duration
  /**
   * Most deliveries of a message, crashes included; after them it becomes a dead letter. Integer from 1 to 1 000 000,
   * default 10.
   */
  maxAttempts?: number
  /** How long a message waits after a failed delivery. Default: exponential from 1 s, max 5 m, jitter 0.2. */
  backoff?: Backoff
  /** Most messages that are delayed, ready or unacked together. Integer from 0 (refuses all); default: no limit. */
  maxSize?: number
  /**
   * How long dead letters are kept, like '30d'; more than 0, at most 400 years. Default: for good. Older ones count no
   * more, and consumers remove them.
   */
  deadTtl?: Duration
  /** The beginning of the keys in Redis. Default 'spillway'. */
  prefix?: string
  /** Default: the server's TIME. Pass a clock only in tests and simulations. */
  clock?: Clock
  /**
   * Default: JSON; a payload of `undefined` is the empty text. If `decode` throws for a payload, the message becomes a
   * dead letter.
   */
  codec?: Codec<T>
  /**
   * Default: none. Receives deliveries, their settlements, the levels of the queue (`delivered`, `settledDelivery`,
   * `level`), and consumers that cannot work (`consumerFailed`). For the levels this process asks Redis at most once a
   * second: after it has pushed, settled or begun to consume, and while a message is overdue. Without an observer,
   * consumers that cannot work become process warnings (SPILLWAY_QUEUE).
   */
  observer?: Observer
}

/** Turns payloads into text and back. */
export interface Codec<T> {
  /** The text to store in Redis. If it throws, `push` rejects with that error. */
  encode(value: T): string
  /** The payload of a text. If it throws, the message becomes a dead letter. */
  decode(text: string): T
}

/** Options of `DelayQueue.push`. */
export interface PushOptions {
  /** Due after this time; default 0: at once. At most 400 years. Mutually exclusive with `at`. */
  delay?: Duration | 0
  /** Due at this moment, ms since the epoch by the server's clock; a past moment: at once. Default: after `delay`. */
  at?: Date | number
  /**
   * 1 to 512 characters; default: a random one. While a message with this id is delayed, ready or unacked, no other is
   * accepted.
   */
  id?: string
  /** Integer from 0 to 9, default 0. Among due messages, the highest comes first. */
  priority?: number
  /** Texts by name, delivered with the message, like `{ trace: '4bf92f' }`. Default: none. */
  headers?: Record<string, string>
  /**
   * Never delivered later than this after the push; more than 0. Default: no bound. A message past its ttl goes at the
   * next delivery, or when the queue is full; until then `stats`, `inspect` and levels may count it, and a push with
   * its id replaces it.
   */
  ttl?: Duration
  /** How often it is delivered before it becomes a dead letter: integer from 1 to 1 000 000. Default: the queue's. */
  maxAttempts?: number
}

const QUEUE_OPTIONS: OptionNames<DelayQueueOptions<unknown>> = {
  visibility: true,
  maxAttempts: true,
  backoff: true,
  maxSize: true,
  deadTtl: true,
  prefix: true,
  clock: true,
  codec: true,
  observer: true,
}
const PUSH_OPTIONS: OptionNames<PushOptions> = {
  delay: true,
  at: true,
  id: true,
  priority: true,
  headers: true,
  ttl: true,
  maxAttempts: true,
}

export interface DelayQueueSettings<T> {
  readonly visibilityMs: number
  readonly maxAttempts: number
  readonly backoffMs: BackoffMs
  readonly maxSize: number | undefined
  /** -1: for good. */
  readonly deadTtlMs: number
  readonly clock: Clock | undefined
  readonly codec: Codec<T>
  readonly observer: Observer | undefined
}

const MOST_ATTEMPTS = 1_000_000
const LONGEST_ID = 512

const JSON_CODEC: Codec<unknown> = {
  encode: value => (value === undefined ? '' : JSON.stringify(value)),
  decode: text => (text === '' ? undefined : JSON.parse(text)),
}

/** Checks the options: `PolicyError`, which begins with `user`. */
export function parseDelayQueueOptions<T>(options: DelayQueueOptions<T>, user: string): DelayQueueSettings<T> {
  checkOptions(user, options, QUEUE_OPTIONS, "{ visibility: '30s' }")
  const { visibility = '30s', maxAttempts = 10, backoff, maxSize, deadTtl, clock, codec } = options
  if (maxSize !== undefined) checkInteger(maxSize, `${user}: maxSize`, '100_000', 0)
  if (clock !== undefined) checkClock(clock, `${user}: clock`)
  if (codec !== undefined && !(typeof codec?.encode === 'function' && typeof codec.decode === 'function')) {
    throw new PolicyError(
      `${user}: codec ${shown(codec)}: expected { encode, decode }, like { encode: String, decode: Number }`,
    )
  }
  return {
    visibilityMs: parseVisibility(visibility, `${user}: visibility`),
    maxAttempts: parseAttempts(maxAttempts, user),
    backoffMs: parseBackoff(backoff, user),
    maxSize,
    deadTtlMs: deadTtl === undefined ? -1 : parseVisibility(deadTtl, `${user}: deadTtl`),
    clock,
    codec: codec ?? (JSON_CODEC as Codec<T>),
    observer: parseObserver(options.observer, user),
  }
}

/** A visibility or lifetime in ms; `PolicyError`, which begins with `what`, for more than four hundred years. */
export function parseVisibility(visibility: Duration, what: string): number {
  return bounded(parseOption(visibility, what), what)
}

/** Checks a message to push: `PolicyError`, which begins with `user`. */
export function pushRequestOf<T>(
  payload: T,
  options: PushOptions,
  settings: DelayQueueSettings<T>,
  user: string,
): PushRequest {
  checkOptions(user, options, PUSH_OPTIONS, "{ delay: '5s' }")
  const { delay, at, id = randomText(16), priority = 0, headers, ttl } = options
  if (at !== undefined && delay !== undefined) {
    throw new PolicyError(`${user}: given both delay and at, expected one of them, like { delay: "5s" }`)
  }
  if (typeof id !== 'string' || id === '' || id.length > LONGEST_ID) {
    throw new PolicyError(`${user}: id ${shown(id)}: expected a text of 1 to ${LONGEST_ID} characters, like "order-17"`)
  }
  checkInteger(priority, `${user}: priority`, 5, 0, 9)
  checkHeaders(headers, user)
  const text = encoded(payload, settings, user)
  if (typeof text !== 'string') {
    throw new PolicyError(
      `${user}: payload ${shown(payload)} became ${shown(text)}: expected that the codec gives a text; JSON ` +
        'cannot say everything',
    )
  }
  const maxAttempts = parseAttempts(options.maxAttempts ?? settings.maxAttempts, user)
  const delayMs =
    at === undefined ? bounded(parseDurationOrZero(delay ?? 0, `${user}: delay`), `${user}: delay`) : undefined
  const ttlMs = ttl === undefined ? undefined : parseOption(ttl, `${user}: ttl`)
  const body = recordBody(headers, text)
  return { id, delayMs, at: at === undefined ? 0 : momentOf(at, user), priority, ttlMs, maxAttempts, body }
}

/** Checks the items of `pushMany`, but not what each has: `PolicyError`, which begins with `user`. */
export function checkItems(items: readonly unknown[], user: string): void {
  if (!Array.isArray(items)) {
    throw new PolicyError(`${user}: given ${shown(items)}, expected a list, like [{ payload: "hello" }]`)
  }
  for (const [index, item] of items.entries()) checkObject(`${user}: item ${index}`, item, '{ payload: "hello" }')
}

/** The option `ids` of `redrive` and `discard`; undefined: all. Throws `PolicyError`, which begins with `user`. */
export function idsOf(options: { ids?: readonly string[] }, user: string): readonly string[] | undefined {
  checkOptions(user, options, { ids: true }, '{ ids: ["order-17"] }')
  const { ids } = options
  if (ids === undefined || (Array.isArray(ids) && ids.every(id => typeof id === 'string'))) return ids
  throw new PolicyError(`${user}: ids ${shown(ids)}: expected a list of texts, like ["order-17"]`)
}

function encoded<T>(payload: T, { codec }: DelayQueueSettings<T>, user: string): string {
  try {
    return codec.encode(payload)
  } catch (error) {
    throw new PolicyError(`${user}: the codec cannot encode the payload: ${textOf(error).split('\n')[0]}`, {
      cause: error,
    })
  }
}

function momentOf(at: Date | number, user: string): number {
  const ms = Math.ceil(Number(at))
  if ((typeof at === 'number' || at instanceof Date) && Number.isSafeInteger(ms)) return ms
  throw new PolicyError(
    `${user}: at ${shown(at)}: expected a Date or milliseconds since 1970, like new Date(Date.now() + 5000)`,
  )
}

function parseAttempts(attempts: number, user: string): number {
  if (Number.isInteger(attempts) && attempts >= 1 && attempts <= MOST_ATTEMPTS) return attempts
  throw new PolicyError(`${user}: maxAttempts ${shown(attempts)}: expected an integer from 1 to 1 000 000, like 10`)
}

function checkHeaders(headers: unknown, user: string): void {
  if (headers === undefined) return
  const isObject = typeof headers === 'object' && headers !== null && !Array.isArray(headers)
  if (isObject && Object.values(headers).every(value => typeof value === 'string')) return
  throw new PolicyError(`${user}: headers ${shown(headers)}: expected texts by name, like { trace: "4bf92f35" }`)
}

function bounded(ms: number, what: string): number {
  if (ms <= LONGEST_DELAY_MS) return ms
  throw new PolicyError(`${what} ${ms}: expected no more than 400 years, like "30d"`)
}
