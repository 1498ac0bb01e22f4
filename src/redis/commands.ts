import { type Clock, Deadline, type Pending } from '../limiter/core/clock.js'
import type { StoreError } from '../limiter/core/errors.js'
import { randomText } from '../limiter/core/short-key.js'
import type { ClientPort, RedisClient } from './client.js'
import { portOf } from './clients.js'
import { redisFailed } from './replies.js'
import { runScript, type Script } from './script.js'
import { forgetSent } from './scripts.js'

/** A call rejects after this time, however long the client would keep trying. */
const PATIENCE = new Deadline(5000)

/** The time that a script is given: whole ms of a given clock, or '', which makes it read the server's. */
export function clockArgument(clock: Clock | undefined): string {
  return clock === undefined ? '' : String(Math.floor(clock.now()))
}

/** How long the closing of an object waits for Redis. */
const CLOSING = new Deadline(1000)

/** The record of sent commands is deleted only after this long without a command. */
const QUIET_MS = 20

/**
 * Runs the scripts of one shared object. Failures reject with `StoreError`, whose `cause` is the client's
 * error; so do calls without an answer within five seconds.
 */
export class Commands {
  readonly #port: ClientPort
  readonly #subject: string
  readonly #keyBase: string
  #ownKey: string | undefined
  /** Numbers of unanswered requests, in their order. */
  readonly #inFlight = new Set<number>()
  readonly #forgets: boolean
  #quiet: ReturnType<typeof setTimeout> | undefined
  #next = 1

  /**
   * `subject` names the object in errors, like `Semaphore "jobs"`; `keyBase` begins its keys. Redis remembers requests
   * for a minute; with `forgets`, only as long as the client may repeat them, so that no key is left behind.
   */
  constructor(client: RedisClient, subject: string, keyBase: string, { forgets = false } = {}) {
    this.#port = portOf(client, subject)
    this.#subject = subject
    this.#keyBase = keyBase
    this.#forgets = forgets
  }

  /** Drawn at random, which some runtimes forbid while a program loads. */
  get #sentKey(): string {
    this.#ownKey ??= `${this.#keyBase}:sent:${randomText(12)}`
    return this.#ownKey
  }

  /**
   * Runs a script that acts once, even if the client sends it repeatedly: see run_once in lua/redis/timely.lua.
   * KEYS end with the record of requests; ARGV begins with the number of this request and the lowest unanswered one.
   */
  async once(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const number = this.#next++
    this.#inFlight.add(number)
    const [floor] = this.#inFlight
    const numbered = [String(number), String(floor), ...args]
    const answer = runScript(this.#port, script, [...keys, this.#sentKey], numbered, { mayRepeat: true })
    // The caller may have been rejected before this: the client may send the command again until it is answered.
    const settled = () => {
      this.#inFlight.delete(number)
      if (this.#forgets) this.forgetWhenQuiet()
    }
    answer.then(settled, settled)
    return this.hold(answer)
  }

  /** Deletes the record of requests after a quiet time: an answered request cannot be repeated. */
  forgetWhenQuiet(): void {
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => this.#forget(), QUIET_MS)
    this.#quiet.unref?.()
  }

  /** Deletes the record of requests, if it is to be deleted early and nothing is in flight. */
  async close(): Promise<void> {
    if (this.#quiet === undefined) return
    clearTimeout(this.#quiet)
    await this.#forget()
  }

  /**
   * Waits for the last commands of a closed object: not at all without a connection, and at most one second. Never
   * rejects.
   */
  async closing(work: Promise<unknown>): Promise<void> {
    const done = CLOSING.hold(work).catch(() => {})
    if (this.#port.state() === 'ready') await done
  }

  /** Runs a script that may run twice. */
  run(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    return this.hold(runScript(this.#port, script, keys, args, { mayRepeat: true }))
  }

  /** The answer, within five seconds. */
  async hold<T>(answer: Promise<T>): Promise<T> {
    try {
      return await PATIENCE.hold(answer)
    } catch (cause) {
      throw redisFailed(this.#subject, cause)
    }
  }

  /** Starts the five seconds of a call that may wait before it is sent; they include that wait. */
  begin(expire: (error: StoreError) => void): Pending {
    const pending: Pending = { endsAt: 0, settled: false, expire: cause => expire(redisFailed(this.#subject, cause)) }
    PATIENCE.start(pending)
    return pending
  }

  /** A call that was begun has ended; false if it has expired before. */
  end(pending: Pending): boolean {
    return PATIENCE.failed(pending)
  }

  async #forget(): Promise<void> {
    this.#quiet = undefined
    // Without a connection the client would keep the command, and the command would keep the process alive; the record
    // expires by itself.
    if (this.#inFlight.size > 0 || this.#port.state() !== 'ready') return
    await CLOSING.hold(runScript(this.#port, forgetSent, [this.#sentKey], [String(this.#next)])).catch(() => {})
  }
}
