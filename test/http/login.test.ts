import { once } from 'node:events'
import { Agent, createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import express, { type RequestHandler } from 'express'
import { concurrencyLimit, rateLimit } from '../../src/http/adapters/express.js'
import { SNIPPETS } from '../docs/pages.js'
import { eventually } from '../support/eventually.js'
import { resetAtOnce } from '../support/gone-clients.js'
import { warnings } from '../support/warnings.js'

const SNIPPET = SNIPPETS.find(
  ({ page, code }) => page === 'docs/recipes.md' && code.includes("app.post('/login', twoAtOnce"),
)

/** The login of the recipes, under attack. */
class Login {
  /** How many passwords have been checked. */
  checked = 0
  atOnce = 0
  mostAtOnce = 0
  arrived = 0
  readonly #held: Array<() => void> = []
  readonly #server: Server

  /** Checks wait for `release`. `proxies`: the options of the snippet say how many there are, instead of Express. */
  constructor(proxies = false) {
    const app = express()
    if (!proxies) app.set('trust proxy', 1)
    app.use((_req, _res, next) => {
      this.arrived++
      next()
    })
    const logIn: RequestHandler = async (_req, res) => {
      this.checked++
      this.mostAtOnce = Math.max(this.mostAtOnce, ++this.atOnce)
      await new Promise<void>(resolve => this.#held.push(resolve))
      this.atOnce--
      res.sendStatus(401)
    }
    const plain = SNIPPET!.code.replace(/^import .*$/m, '')
    const code = proxies ? plain.replaceAll('({ ', '({ proxies: 1, ') : plain
    new Function('app', 'logIn', 'concurrencyLimit', 'rateLimit', code)(app, logIn, concurrencyLimit, rateLimit)
    this.#server = createServer(app)
  }

  async start(): Promise<this> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
    return this
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The status of a guess that comes from this address through a proxy. */
  async guess(from: string): Promise<number | undefined> {
    const headers = { 'x-forwarded-for': from }
    const sent = request({ port: this.port, host: '127.0.0.1', method: 'POST', path: '/login', headers, agent })
    const [answer] = await once(sent.end(), 'response')
    answer.resume()
    return answer.statusCode
  }

  /** All checks that run are ended. */
  release(): void {
    for (const end of this.#held.splice(0)) end()
  }

  async stop(): Promise<void> {
    this.release()
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

const agent = new Agent({ maxSockets: 250 })

describe('the login of the guide', () => {
  let login: Login
  const warned = warnings()
  afterEach(async () => {
    await login.stop()
    expect(warned.texts).toEqual([])
  })

  test.each(['the setting of Express', 'the option proxies'])(
    'checks at most six passwords of an IPv6 network that sends 200 at once, with %s',
    async setting => {
      login = await new Login(setting === 'the option proxies').start()
      const all = Array.from({ length: 200 }, (_, i) => login.guess(`2001:db8:0:1::${i.toString(16)}`))
      await eventually('all have come', async () => login.arrived === 200)
      expect(login.mostAtOnce).toBe(2)
      const tried = setInterval(() => login.release(), 1)
      await Promise.all(all)
      for (let i = 0; i < 10; i++) await login.guess(`2001:db8:0:1::${i}`)
      clearInterval(tried)
      expect(login.checked).toBeGreaterThanOrEqual(5)
      expect(login.checked).toBeLessThanOrEqual(6)
    },
  )

  test('gives each of 20 clients behind one proxy its own two places', async () => {
    login = await new Login(true).start()
    const all = Array.from({ length: 20 }, (_, i) => [1, 2].map(() => login.guess(`203.0.113.${i}`))).flat()
    await eventually('all are inside', async () => login.atOnce === 40)
    expect(await login.guess('203.0.113.7')).toBe(429)
    login.release()
    expect(await Promise.all(all)).toEqual(Array(40).fill(401))
  })

  test.each(['the setting of Express', 'the option proxies'])(
    'checks no password of clients that reset their connections at once, with %s',
    async setting => {
      login = await new Login(setting === 'the option proxies').start()
      const forged = 'X-Forwarded-For: 203.0.113.9\r\n'
      resetAtOnce(login.port, 200, `POST /login HTTP/1.1\r\nHost: test\r\n${forged}Content-Length: 0\r\n\r\n`)
      await eventually('all have come', async () => login.arrived === 200)
      expect(login.checked).toBe(0)
    },
  )
})
