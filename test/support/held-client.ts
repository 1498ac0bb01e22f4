import type { Redis } from 'ioredis'

/** Makes the scripts of a client wait, so that another one surely comes first. */
export class HeldClient {
  #held: Promise<void> | undefined
  #letGo = () => {}

  /** Before anything uses the client. */
  constructor(readonly client: Redis) {
    for (const name of ['evalsha', 'eval'] as const) {
      const send = client[name].bind(client) as (...words: unknown[]) => Promise<unknown>
      client[name] = (async (...words: unknown[]) => {
        await this.#held
        return send(...words)
      }) as never
    }
  }

  /** Scripts that are sent from now on wait until `letGo`. */
  hold(): void {
    this.#held = new Promise(resolve => {
      this.#letGo = resolve
    })
  }

  letGo(): void {
    this.#held = undefined
    this.#letGo()
  }
}
