import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** What a call has cost, and when the partner has counted it. */
interface Counted {
  readonly at: number
  readonly tokens: number
}

/**
 * A service that sells tokens, and counts calls and tokens for itself, in any span of the interval: a call when it
 * comes, its tokens when they are known, at the end. It refuses a call if no call or no token is left. It answers
 * within 10 ms, with a stream of 25 ms whose last event tells the usage.
 */
export class ChatPartner {
  readonly passed: Counted[] = []
  refused = 0
  readonly #calls: Counted[] = []

  constructor(
    readonly calls: number,
    readonly tokens: number,
    readonly intervalMs: number,
  ) {}

  async listen(): Promise<{ url: string; close(): void }> {
    const server = createServer(async (req, res) => {
      let body = ''
      for await (const chunk of req) body += chunk
      await this.#answer(Number(JSON.parse(body).tokens), res)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    return {
      url: `http://127.0.0.1:${port}/`,
      close: () => {
        server.close()
        server.closeAllConnections()
      },
    }
  }

  /** Tokens that were counted from one moment to another. */
  between(from: number, to: number): number {
    let sum = 0
    for (let index = this.passed.length - 1; index >= 0 && this.passed[index].at >= from; index--) {
      if (this.passed[index].at < to) sum += this.passed[index].tokens
    }
    return sum
  }

  /**
   * How much of the tokens its calls have used from one moment to another: what it counts in an interval, as an average
   * over these moments.
   */
  usedShare(from: number, to: number): number {
    let sum = 0
    for (const { at, tokens } of this.passed) {
      sum += tokens * Math.max(0, Math.min(to, at + this.intervalMs) - Math.max(from, at))
    }
    return sum / (this.tokens * (to - from))
  }

  async #answer(tokens: number, res: ServerResponse): Promise<void> {
    const now = performance.now()
    const left = this.tokens - this.between(now - this.intervalMs, Number.POSITIVE_INFINITY)
    const oldest = this.#calls[this.#calls.length - this.calls]
    if (left <= 0 || (oldest !== undefined && oldest.at > now - this.intervalMs)) {
      this.refused++
      res.writeHead(429, { 'retry-after-ms': 20, 'x-ratelimit-remaining-tokens': Math.max(0, left) }).end()
      return
    }
    this.#calls.push({ at: now, tokens })
    await sleep(5)
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let part = 0; part < 4; part++) {
      res.write(`data: {"choices":[{"delta":{"content":"word "}}]}\n\n`)
      await sleep(6)
    }
    this.passed.push({ at: performance.now(), tokens })
    res.end(`data: {"choices":[],"usage":{"total_tokens":${tokens}}}\n\ndata: [DONE]\n\n`)
  }
}
