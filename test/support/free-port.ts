import { createServer } from 'node:net'

// Below the range from which the system picks ports for outgoing connections: a server that is down for a moment could
// otherwise lose its port to some client's socket, and a client that keeps knocking there could connect to itself.
const FIRST = 10_240
const LAST = 22_000

/** How far above its port a cluster node listens for its peers: Redis's own rule. */
const BUS_OFFSET = 10_000

/**
 * A port on which nobody listens just now, with its cluster bus. Another process may still be faster: be ready to ask
 * again.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 200; tries++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) return port
  }
  throw new Error(`no free port between ${FIRST} and ${LAST}`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
