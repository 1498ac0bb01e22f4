import type { Blocking, OpenBlocking } from '../blocking.js'
import { hasMethods } from '../has-methods.js'
import { DUPLICATE } from './listening.js'

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
interface IoredisBlocker {
  readonly status: string
  readonly isCluster?: boolean
  duplicate(...override: unknown[]): IoredisBlocker
  connect(): Promise<unknown>
  disconnect(): void
  bzpopmin(key: string, seconds: number): Promise<[key: string, member: string, score: string] | null>
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
  return typeof (client as IoredisBlocker).status === 'string' && hasMethods(client, 'duplicate', 'bzpopmin')
}

/** Override the client's own options: a lost connection is replaced, not reconnected, and a block may last longer than a command. */
const PATIENT = { commandTimeout: undefined, socketTimeout: undefined }
const OPTIONS = { ...DUPLICATE, ...PATIENT, maxRetriesPerRequest: null }

const CLUSTER_OPTIONS = {
  lazyConnect: true,
  clusterRetryStrategy: () => null,
  scaleReads: 'master',
  redisOptions: PATIENT,
}

export function ioredisBlocking(client: IoredisBlocker): OpenBlocking {
  return () => make(client.isCluster === true ? client.duplicate([], CLUSTER_OPTIONS) : client.duplicate(OPTIONS))
}

function make(connection: IoredisBlocker): Blocking {
  const close = () => {
    // Disconnecting an ended connection would only start a timer.
    if (connection.status !== 'end') connection.disconnect()
  }
  connection.on('error', () => {})
  // The caller's timer keeps the process alive, not this socket.
  const release = (node: IoredisNode) => node.on('connect', () => node.stream?.unref?.())
  if (connection.isCluster) connection.on('+node', node => node && release(node))
  else release(connection)
  return {
    async connect() {
      try {
        await connection.connect()
      } catch (error) {
        close()
        throw error
      }
    },
    pop: async (key, seconds) => (await connection.bzpopmin(key, seconds))?.[1],
    close,
  }
}
