import type { Redis } from 'ioredis'

/** How often it looks, which is also by how much what it finds may be too small. */
const EVERY_MS = 2

/**
 * How late this process does what is due, and how late a server answers, at most, for as long as it is measured: what a
 * busy machine adds to any time that a test takes.
 */
export class Lateness {
  #ownMs = 0
  #serverMs = 0
  #lastAt = performance.now()
  readonly #timer: ReturnType<typeof setInterval>
  #asking = false

  constructor(server?: Redis) {
    this.#timer = setInterval(() => {
      this.#note()
      if (server && !this.#asking) void this.#ask(server)
    }, EVERY_MS)
  }

  /** ms. Both together: what a process asks of the server late, the server may answer late. */
  stop(): number {
    clearInterval(this.#timer)
    this.#note()
    return this.#ownMs + this.#serverMs
  }

  #note(): void {
    const now = performance.now()
    this.#ownMs = Math.max(this.#ownMs, now - this.#lastAt - EVERY_MS)
    this.#lastAt = now
  }

  async #ask(server: Redis): Promise<void> {
    this.#asking = true
    const askedAt = performance.now()
    await server.ping().catch(() => {})
    this.#serverMs = Math.max(this.#serverMs, performance.now() - askedAt)
    this.#asking = false
  }
}
