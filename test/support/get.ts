import { Agent, createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Answer<Body = Record<string, unknown>> {
  readonly status: number
  readonly headers: Record<string, string>
  readonly text: string
  /** Of a text in JSON; else {}. */
  readonly body: Body
}

/** Which service of this file a request is for; no service sees it. */
const SERVICE = 'X-Test-Service'
const services = new Map<number, RequestListener>()
let last = 0
/** Connections are kept: a server and a connection for each request would cost three times as much as the request. */
const agent = new Agent({ keepAlive: true })
let listening: Promise<Server> | undefined

function answer(req: IncomingMessage, res: Parameters<RequestListener>[1]): void {
  const at = req.rawHeaders.indexOf(SERVICE)
  const [, id] = req.rawHeaders.splice(at, 2)
  services.get(Number(id))?.(req, res)
}

const started = () =>
  new Promise<Server>(resolve => {
    const server = createServer({ keepAliveTimeout: 0 }, answer)
    server.on('connection', socket => socket.unref())
    server.listen(0, '127.0.0.1', () => resolve(server.unref()))
  })

/** The answer of a service to `GET path`. */
export async function get<Body>(
  service: RequestListener,
  headers: Record<string, string> = {},
  path = '/',
): Promise<Answer<Body>> {
  listening ??= started()
  const { port } = (await listening).address() as AddressInfo
  const id = ++last
  services.set(id, service)
  try {
    return await new Promise((resolve, reject) => {
      const sent = request(
        { port, host: '127.0.0.1', path, agent, headers: { [SERVICE]: id, ...headers } },
        response => {
          let text = ''
          response.setEncoding('utf8').on('data', part => (text += part))
          response.on('error', reject).on('end', () => {
            const isJson = /json/.test(response.headers['content-type'] ?? '')
            resolve({
              status: response.statusCode ?? 0,
              headers: response.headers as Record<string, string>,
              text,
              body: JSON.parse(isJson ? text : '{}'),
            })
          })
        },
      )
      sent.on('error', reject).end()
    })
  } finally {
    services.delete(id)
  }
}
