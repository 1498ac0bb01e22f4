import { connect as connect2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../test/support/random.js'

const KINDS = ['now', 'now', 'wrong', 'wrong', 'throw', 'large', 'stream', 'endless', 'never'] as const
const ENDINGS = [
  'reads',
  'leaves',
  'resets',
  'half-closes',
  'does not read',
  'does not read for long',
  'cut off',
] as const

/**
 * One connection with random requests and a random end, all drawn before it begins, so that a seed plays the same storm
 * again.
 */
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
    if (!this.#ending.startsWith('does not read')) socket.resume()
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
    // Longer than places are kept for clients that take nothing.
    if (this.#ending === 'does not read for long') await sleep(800)
    if (this.#ending === 'resets') socket.resetAndDestroy()
    else socket.destroy()
  }
}

const CODES = [0, 2, 8]
const SESSION_ENDINGS = ['closes', 'destroys', 'does not read for long'] as const

/** One HTTP/2 connection with random requests, some of which are reset. */
export class Http2Visitor {
  readonly #requests: Array<{ path: string; method: string; reset: { code: number; afterMs: number } | undefined }>
  readonly #ending: (typeof SESSION_ENDINGS)[number]
  readonly #staysMs: number

  constructor(random: Random, users: readonly string[]) {
    const user = random.pick(users)
    this.#requests = Array.from({ length: random.integer(1, 6) }, () => ({
      path: `/${random.pick(KINDS)}/${random.pick([0, 0, 1, 5, 20, 100])}/${user}`,
      method: random.pick(['GET', 'GET', 'HEAD']),
      reset:
        random.integer(0, 1) === 0 ? undefined : { code: random.pick(CODES), afterMs: random.pick([0, 1, 10, 50]) },
    }))
    this.#ending = random.pick(SESSION_ENDINGS)
    this.#staysMs = random.pick([0, 1, 3, 10, 50, 150])
  }

  async visit(port: number): Promise<void> {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => {})
    const session = connect2(`http://127.0.0.1:${port}`, { createConnection: () => socket })
    session.on('error', () => {})
    const closed = new Promise<void>(resolve => session.once('close', () => resolve()))
    for (const { path, method, reset } of this.#requests) {
      const stream = session.request({ ':path': path, ':method': method })
      stream.on('error', () => {})
      if (this.#ending !== 'does not read for long') stream.resume()
      if (reset) setTimeout(() => stream.close(reset.code), reset.afterMs)
    }
    await sleep(this.#staysMs)
    if (this.#ending === 'does not read for long') await sleep(800)
    if (this.#ending === 'closes') {
      session.close()
      await sleep(300)
    }
    session.destroy()
    await closed
    // A session leaves its connection open while it has something to send.
    socket.destroy()
  }
}
