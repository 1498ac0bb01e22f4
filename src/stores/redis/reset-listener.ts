import type { ClientPort, RedisClient } from '../../redis/client.js'
import { runScript } from '../../redis/run-script.js'
import { tell } from '../../redis/scripts.js'
import { Subscriber } from '../../redis/subscriber.js'

/** Told of a key whose units were given back in some process; of `undefined` when news may have been missed. */
export type ResetListener = (key: string | undefined) => void

/** Tells the other processes of keys whose units were given back, and hears of theirs, over one more connection a client. */
export class ResetChannel {
  readonly #listeners = new Set<ResetListener>()
  readonly #channel: string
  #listening = false

  /** Throws `PolicyError` for a client that gives no connection to listen on. */
  constructor(
    readonly client: RedisClient,
    readonly port: ClientPort,
    prefix: string,
  ) {
    this.#channel = `${prefix}!resets`
  }

  listen(listener: ResetListener): void {
    this.#listeners.add(listener)
    if (this.#listening) return
    this.#listening = true
    const all: ResetListener = key => {
      for (const each of this.#listeners) each(key)
    }
    const subscription = Subscriber.of(this.client, 'RedisStore').subscription(this.#channel, {
      hear: text => {
        for (const key of JSON.parse(text) as string[]) all(key)
      },
      live: () => all(undefined),
    })
    subscription.hold()
  }

  /** Nobody waits for it: who does not hear it refuses the key until the end of the denial that it knows. */
  tell(keys: readonly string[]): void {
    runScript(this.port, tell, [], [this.#channel, JSON.stringify([...new Set(keys)])]).catch(() => {})
  }
}
