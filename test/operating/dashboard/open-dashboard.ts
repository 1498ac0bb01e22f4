import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { DashboardOptions } from '../../../src/operating/dashboard/index.js'
import { dashboard } from '../../../src/operating/dashboard/index.js'
import type { View } from '../../../src/operating/dashboard/server/page-views.js'
import type { ChangeRequest, ChangeResult, Failure, ViewRequest } from '../../../src/operating/dashboard/view.js'
import { eventually } from '../../support/eventually.js'

export interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A dashboard that is served over HTTP, as its page asks it. */
export class OpenDashboard {
  private constructor(
    readonly url: string,
    readonly close: () => Promise<void>,
  ) {}

  static async start(options: DashboardOptions): Promise<OpenDashboard> {
    const handler = dashboard(options)
    return OpenDashboard.serve((req, res) => handler(req, res))
  }

  static async serve(listener: RequestListener, path = '/'): Promise<OpenDashboard> {
    const server = createServer(listener).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
    return new OpenDashboard(url, async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    })
  }

  async view<Page extends ViewRequest['page']>(
    ask: ViewRequest & { page: Page },
  ): Promise<Extract<View, { page: Page }>> {
    const reply = await this.get('view', { 'x-spillway-request': encoded(ask) })
    if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`)
    return JSON.parse(reply.text) as Extract<View, { page: Page }>
  }

  /** The view of a page once a condition holds of it. */
  async shows<Page extends ViewRequest['page']>(
    page: Page,
    isSo: (view: Extract<View, { page: Page }>) => boolean,
  ): Promise<Extract<View, { page: Page }>> {
    return eventually(`the page ${page} shows it`, async () => {
      const view = await this.view({ page } as ViewRequest & { page: Page })
      if (!isSo(view)) throw new Error(JSON.stringify(view))
      return view
    })
  }

  /** A change as the page sends it. */
  async act(
    act: ChangeRequest,
    headers: Record<string, string> = {},
  ): Promise<Reply & Partial<ChangeResult & Failure>> {
    const reply = await this.send('POST', 'act', { 'x-spillway-request': encoded(act), ...headers })
    return { ...reply, ...(JSON.parse(reply.text) as Partial<ChangeResult & Failure>) }
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send('GET', path, headers)
  }

  /** Any request, with whatever Host it names. */
  send(method: string, path: string, headers: Record<string, string> = {}): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const request = httpRequest(`${this.url}${path}`, { method, headers }, response => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', part => {
          text += part
        })
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
      })
      request.on('error', reject)
      request.end()
    })
  }
}

export function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
