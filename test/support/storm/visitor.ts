import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random.js'

const KINDS = ['now', 'now', 'wrong', 'wrong', 'throw', 'large', 'stream', 'never'] as const
const ENDINGS = ['reads', 'leaves', 'resets', 'half-closes', 'does not read', 'cut off'] as const

/** One connection with random requests and a random end, all drawn before it begins, so that a seed plays the same storm again. */
export class Visitor {
  readonly #writes: { text: string; afterMs: number }[]
  readonly #ending: (typeof ENDINGS)[number]
  readonly #staysMs: number

  constructor(random: Random, users: readonly string[]) {
    const user = random.pick(users)
    const requests = Array.from({ length: random.integer(1, 6) }, () => {
      const ms = random.pick([0, 0, 1, 5, 20, 100])
      return `GET /${random.pick(KINDS)}/${ms}/${user} HTTP/1.1\r\nHost: storm\r\n\r\n`
    })
    const inOneWrite = random.integer(0, 1) === 1
    const texts = inOneWrite ? [requests.join('')] : requests
    this.#writes = texts.map(text => ({ text, afterMs: random.pick([0, 0, 2, 10]) }))
    this.#ending = random.pick(ENDINGS)
    this.#staysMs = random.pick([0, 1, 3, 10, 50, 150])
    if (this.#ending === 'cut off') this.#writes.push({ text: requests[0].slice(0, random.integer(1, 20)), afterMs: 0 })
  }

  async visit(port: number): Promise<void> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => {})
    const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
    if (this.#ending !== 'does not read') socket.resume()
    for (const { text, afterMs } of this.#writes) {
      if (afterMs > 0) await sleep(afterMs)
      if (!socket.destroyed) socket.write(text)
    }
    await sleep(this.#staysMs)
    await this.#end(socket)
    await closed
  }

  async #end(socket: Socket): Promise<void> {
    if (this.#ending === 'half-closes') socket.end()
    // An unanswered request keeps the connection open, so that every visitor leaves some time.
    if (this.#ending === 'reads' || this.#ending === 'half-closes') await sleep(300)
    if (this.#ending === 'resets') socket.resetAndDestroy()
    else socket.destroy()
  }
}
