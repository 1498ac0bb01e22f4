import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A service on loopback that somebody else runs. Answers as told, 200 by default, and records what arrives. */
export class PartnerServer {
  /** Method and path of each request. */
  readonly requests: string[] = []
  answer: (request: IncomingMessage, response: ServerResponse) => void = (_, response) => void response.end('ok')
  readonly #server = createServer((request, response) => {
    this.requests.push(`${request.method} ${request.url}`)
    request.resume()
    this.answer(request, response)
  })

  static async start(): Promise<PartnerServer> {
    const partner = new PartnerServer()
    partner.#server.listen(0, '127.0.0.1')
    await once(partner.#server, 'listening')
    return partner
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Refuses everything with this status and Retry-After from now on. */
  refuse(status: number, retryAfter: string): void {
    this.answer = (_, response) => void response.writeHead(status, { 'retry-after': retryAfter }).end()
  }

  allow(): void {
    this.answer = (_, response) => void response.end('ok')
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
