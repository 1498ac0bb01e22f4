import { randomBytes } from 'node:crypto'
import { StoreError } from '../errors.js'
import type { ClientPort, RedisClient } from '../redis/client.js'
import { portOf } from '../redis/port-of.js'
import { runScript } from '../redis/run-script.js'
import type { Script } from '../redis/script.js'
import { forgetSent } from '../redis/scripts.js'

/**
 * The scripts of one shared object, as one sender runs them. What fails rejects with `StoreError`, whose `cause` is the client's
 * error; how long a client tries is its own affair.
 */
export class Commands {
  readonly #port: ClientPort
  readonly #subject: string
  readonly #sentKey: string
  /** Numbers of what is not answered yet, in the order of asking. */
  readonly #inFlight = new Set<number>()
  #next = 1

  /** `subject` names the object in errors, like `Semaphore "jobs"`; `keyBase` begins its keys. */
  constructor(client: RedisClient, subject: string, keyBase: string) {
    this.#port = portOf(client, subject)
    this.#subject = subject
    this.#sentKey = `${keyBase}:sent:${randomBytes(9).toString('base64url')}`
  }

  /**
   * Runs a script that acts once, however often the client sends it: see `once.lua`. KEYS end with the list of what was sent;
   * ARGV begins with the number of this request and the lowest that is not answered.
   */
  async once(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const number = this.#next++
    this.#inFlight.add(number)
    const [floor] = this.#inFlight
    try {
      return await this.run(script, [...keys, this.#sentKey], [String(number), String(floor), ...args])
    } finally {
      this.#inFlight.delete(number)
    }
  }

  /**
   * Forgets at once what was sent, if all of it has been answered; else it is forgotten in a minute. For objects that should
   * leave no key behind.
   */
  async forget(): Promise<void> {
    if (this.#inFlight.size === 0) await this.run(forgetSent, [this.#sentKey], [])
  }

  /** Runs a script that may as well run twice. */
  async run(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    try {
      return await runScript(this.#port, script, keys, args)
    } catch (cause) {
      throw new StoreError(`${this.#subject}: Redis failed: ${(cause as Error)?.message}`, { cause })
    }
  }
}
