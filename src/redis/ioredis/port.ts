import type { ClientPort, ClientState } from '../client.js'

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
export interface IoredisLike {
  readonly status: string
  /** While it waits to try again; gone when its owner has closed it, whatever `status` says. */
  reconnectTimeout?: ReturnType<typeof setTimeout> | null
  readonly isCluster?: boolean
  evalsha(sha1: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
  eval(source: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
  connect(): Promise<unknown>
  on(event: 'ready', listener: () => void): unknown
}

export function isIoredis(client: object): client is IoredisLike {
  const { status, evalsha, eval: run, connect, on } = client as Partial<IoredisLike>
  return typeof status === 'string' && [evalsha, run, connect, on].every(method => typeof method === 'function')
}

export function ioredisPort(client: IoredisLike): ClientPort {
  let wasReady = client.status === 'ready'
  const listeners = new Set<() => void>()
  client.on('ready', () => {
    wasReady = true
    for (const listener of listeners) listener()
  })
  return {
    cluster: client.isCluster === true,
    evalsha: (sha1, keys, args) => client.evalsha(sha1, keys.length, ...keys, ...args),
    eval: (source, keys, args) => client.eval(source, keys.length, ...keys, ...args),
    state(): ClientState {
      if (client.status === 'ready') return 'ready'
      return !wasReady && STARTING.has(client.status) ? 'starting' : 'down'
    },
    wake() {
      // While it waits to try again it may be told not to; in any other state it is at it already, or was closed by its owner.
      if (client.status === 'reconnecting') {
        if (!client.reconnectTimeout) return
        // Left alone, its own timer would start a second chain of attempts, which nothing could stop.
        clearTimeout(client.reconnectTimeout)
        client.reconnectTimeout = null
      } else if (client.status !== 'wait') return
      client.connect().catch(() => {})
    },
    onReady(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

const STARTING = new Set(['wait', 'connecting', 'connect'])
