import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dashboard } from '../../src/operating/dashboard/index.js'
import type { ViewRequest } from '../../src/operating/dashboard/view.js'
import { LivePolicies } from '../../src/operating/live/index.js'

/** What one view cost: the service's processor, in ms, and what Redis was asked. */
export interface ViewCost {
  readonly cpuMs: number
  readonly calls: number
}

/** Asks as a browser does, in a process of its own: what it costs is not the service's. */
const VIEWER = `
process.on('message', async ({ url, ask }) => {
  const headers = { 'x-spillway-request': Buffer.from(JSON.stringify(ask)).toString('base64url') }
  const reply = await fetch(url, { headers })
  const text = await reply.text()
  process.send({ status: reply.status, length: text.length, text: text.slice(0, 200) })
})`

const PAUSE_MS = 2000
/** Views before those that are measured: a tab that is open for a quarter of a minute. */
const WARM = 8

/** A dashboard in this process, a viewer in another one, who asks every two seconds. */
export class ViewCosts {
  readonly #viewer = spawn(process.execPath, ['-e', VIEWER], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })

  private constructor(
    readonly url: string,
    readonly calls: () => Promise<number>,
    readonly between: () => Promise<void>,
    readonly stop: () => void,
  ) {}

  /** `calls`: how many commands Redis was sent so far; `between`: what happens before each view. */
  static async start(
    client: object,
    defaults: Readonly<Record<string, string>>,
    calls: () => Promise<number>,
    between: () => Promise<void>,
  ): Promise<ViewCosts> {
    const live = new LivePolicies(client, { defaults })
    const handler = dashboard({ client, live, authorize: () => 'write' })
    const server = createServer((req, res) => handler(req, res)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/view`
    const costs = new ViewCosts(url, calls, between, () => {
      costs.#viewer.kill()
      server.closeAllConnections()
      server.close()
      void live.close()
    })
    return costs
  }

  /** The cost of each of some views. */
  async of(ask: ViewRequest, views: number): Promise<ViewCost[]> {
    const costs: ViewCost[] = []
    for (let i = -WARM; i < views; i++) {
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
      await this.between()
      const [calls, cpu] = [await this.calls(), process.cpuUsage()]
      this.#viewer.send({ url: this.url, ask })
      const [reply] = await once(this.#viewer, 'message')
      const { user, system } = process.cpuUsage(cpu)
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`)
      if (i >= 0) costs.push({ cpuMs: (user + system) / 1000, calls: (await this.calls()) - calls })
    }
    return costs
  }
}
