import type { Blocking, OpenBlocking } from '../blocking.js'

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
interface IoredisBlocker {
  readonly status: string
  readonly isCluster?: boolean
  duplicate(...override: unknown[]): IoredisBlocker
  connect(): Promise<unknown>
  disconnect(): void
  bzpopmin(key: string, seconds: number): Promise<unknown>
  on(event: 'error' | 'end' | 'connect' | '+node', listener: (node?: IoredisNode) => void): unknown
  nodes?(): IoredisNode[]
  /** Undefined until it connects. */
  readonly stream?: { unref?(): unknown }
}
interface IoredisNode {
  readonly stream?: { unref?(): unknown }
  on(event: 'connect', listener: () => void): unknown
}

export function isIoredisBlocker(client: object): client is IoredisBlocker {
  const { status, duplicate, bzpopmin } = client as Partial<IoredisBlocker>
  return typeof status === 'string' && [duplicate, bzpopmin].every(method => typeof method === 'function')
}

/** Beside a client's own options: who loses such a connection opens another, and a block may well last longer than a command. */
const OPTIONS = {
  lazyConnect: true,
  retryStrategy: () => null,
  reconnectOnError: null,
  autoResendUnfulfilledCommands: false,
  enableReadyCheck: false,
  maxRetriesPerRequest: null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  readOnly: false,
  monitor: false,
}

const CLUSTER_OPTIONS = {
  lazyConnect: true,
  clusterRetryStrategy: () => null,
  scaleReads: 'master',
  redisOptions: { commandTimeout: undefined, socketTimeout: undefined },
}

export function ioredisBlocking(client: IoredisBlocker): OpenBlocking {
  return () => {
    if (client.status === 'end') return undefined
    return open(client.isCluster === true ? client.duplicate([], CLUSTER_OPTIONS) : client.duplicate(OPTIONS))
  }
}

async function open(connection: IoredisBlocker): Promise<Blocking> {
  const close = () => {
    // Once it has ended, closing it would only leave a timer behind.
    if (connection.status !== 'end') connection.disconnect()
  }
  connection.on('error', () => {})
  // Whoever waits keeps the process alive by a timer of its own.
  const release = (node: IoredisNode) => node.on('connect', () => node.stream?.unref?.())
  if (connection.isCluster) connection.on('+node', node => node && release(node))
  else release(connection)
  try {
    await connection.connect()
  } catch (error) {
    close()
    throw error
  }
  return {
    pop: async (key, seconds) => (await connection.bzpopmin(key, seconds)) != null,
    close,
  }
}
