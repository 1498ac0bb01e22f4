import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { HeaderForm } from '../../src/http/headers.js'
import type { Contender } from './contest.js'

export type Framework = 'express' | 'koa' | 'fastify' | 'hono' | 'nest' | 'node' | 'fetch'

interface ServiceOptions {
  readonly quota?: number
  readonly redisPort?: number
  /** The header fields of spillway, where they are not those that it has by default. */
  readonly headers?: readonly HeaderForm[]
  /** Of spillway, where it is not the one that it has by default. */
  readonly algorithm?: string
}

export const BARE = 'bare'
/** No limiter, but the header fields that spillway has by default, for what they cost by themselves. */
export const BY_HAND = 'fields by hand'
/**
 * The same behind an awaited INCR: the least that a limiter on Redis which asks for each request by itself can cost.
 */
export const INCR_BY_HAND = 'INCR and fields by hand'

/** A service behind a limiter in memory or, with a port of Redis, there; without a limiter it is bare, or sets the
 * header fields of one. */
export function service(framework: Framework, limiter = BARE, options: ServiceOptions = {}): Contender {
  const isLimiter = limiter !== BARE && limiter !== BY_HAND
  const where = !isLimiter ? '' : options.redisPort === undefined ? ' in memory' : ' on Redis'
  const algorithm = options.algorithm === undefined ? '' : `, ${options.algorithm},`
  const forms = options.headers === undefined ? '' : `, ${options.headers.join(', ')}`
  return { name: `${limiter}${algorithm}${where}${forms}`, file: 'http.mjs', setup: { framework, limiter, ...options } }
}

const REQUEST = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'

/** The statuses of requests on one connection, each sent when the one before was answered. */
export async function statusesInTurn(port: number, count: number): Promise<number[]> {
  const socket = await connected(port)
  const statuses: number[] = []
  for (let i = 0; i < count; i++) {
    socket.write(REQUEST)
    statuses.push(...(await readStatuses(socket, 1)))
  }
  socket.destroy()
  return statuses
}

/** The statuses of requests that arrive in one segment. */
export async function statusesAtOnce(port: number, count: number): Promise<number[]> {
  const socket = await connected(port)
  socket.write(REQUEST.repeat(count))
  const statuses = await readStatuses(socket, count)
  socket.destroy()
  return statuses
}

async function connected(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  await once(socket, 'connect')
  return socket
}

/** Reads until so many answers have begun and nothing more comes for a moment. */
async function readStatuses(socket: Socket, count: number): Promise<number[]> {
  let text = ''
  const onData = (data: Buffer) => {
    text += data.toString('latin1')
  }
  socket.on('data', onData)
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))
  const until = performance.now() + 5000
  while (statuses().length < count) {
    if (performance.now() > until) throw new Error(`${count} requests, but only these answers in 5 s: ${statuses()}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  // The rest of a body must not be taken for the beginning of the next answer.
  await new Promise(resolve => setTimeout(resolve, 20))
  socket.off('data', onData)
  return statuses()
}
