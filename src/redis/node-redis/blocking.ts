import type { Blocking, OpenBlocking } from '../blocking.js'

/** The part of a node-redis client or cluster (4 and later) that is used here. */
interface NodeRedisBlocker {
  readonly isOpen: boolean
  /** Only on a cluster. */
  readonly slots?: unknown
  readonly options?: { readonly socket?: object }
  duplicate(overrides?: object): NodeRedisBlocker
  connect(): Promise<unknown>
  /** Closes it at once; before version 5 it was `disconnect` that did. */
  destroy?(): void
  disconnect?(): Promise<void> | void
  unref?(): void
  sendCommand(...args: unknown[]): Promise<unknown>
  on(event: 'error' | 'end', listener: () => void): unknown
}

export function isNodeRedisBlocker(client: object): client is NodeRedisBlocker {
  const { isOpen, duplicate, sendCommand } = client as Partial<NodeRedisBlocker>
  return typeof isOpen === 'boolean' && [duplicate, sendCommand].every(method => typeof method === 'function')
}

export function nodeRedisBlocking(client: NodeRedisBlocker): OpenBlocking {
  const cluster = 'slots' in client
  return () => {
    if (!client.isOpen) return undefined
    // Who loses such a connection opens another.
    const alone = { socket: { ...client.options?.socket, reconnectStrategy: false }, commandOptions: undefined }
    return open(client.duplicate(cluster ? undefined : alone), cluster)
  }
}

async function open(connection: NodeRedisBlocker, cluster: boolean): Promise<Blocking> {
  let over = false
  const close = () => {
    if (over) return
    over = true
    if (!connection.isOpen) return
    if (connection.destroy) connection.destroy()
    else Promise.resolve(connection.disconnect?.()).catch(() => {})
  }
  connection.on('error', cluster ? () => {} : close)
  try {
    await connection.connect()
    // Whoever waits keeps the process alive by a timer of its own.
    connection.unref?.()
  } catch (error) {
    close()
    throw error
  }
  return {
    async pop(key, seconds) {
      const command = ['BZPOPMIN', key, String(seconds)]
      return (await (cluster ? connection.sendCommand(key, false, command) : connection.sendCommand(command))) != null
    },
    close,
  }
}
