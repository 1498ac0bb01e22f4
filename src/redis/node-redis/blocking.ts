import type { Blocking, OpenBlocking } from '../blocking.js'
import { hasMethods } from '../has-methods.js'
import { slotOf } from '../slot.js'
import { close } from './listening.js'

/** The part of a node-redis client (4 and later) that is used here. */
interface NodeRedisBlocker {
  readonly isOpen: boolean
  readonly isReady?: boolean
  readonly options?: { readonly socket?: object }
  duplicate(overrides: object): NodeRedisBlocker
  connect(): Promise<unknown>
  /** Closes it at once; before version 5 the method was `disconnect`. */
  destroy?(): void
  disconnect?(): Promise<void> | void
  unref?(): void
  sendCommand(command: readonly string[]): Promise<unknown>
  on(event: 'error' | 'end', listener: () => void): unknown
}

/** The part of a node-redis cluster (4 and later) that is used here. */
interface NodeRedisCluster {
  readonly isOpen: boolean
  /** Version 4 holds a promise while a node connects. */
  readonly slots: ReadonlyArray<{ readonly master: { readonly client?: NodeRedisBlocker } } | undefined>
}

export function isNodeRedisBlocker(client: object): client is NodeRedisBlocker | NodeRedisCluster {
  if (isCluster(client)) return true
  return typeof (client as NodeRedisBlocker).isOpen === 'boolean' && hasMethods(client, 'duplicate', 'sendCommand')
}

function isCluster(client: object): client is NodeRedisCluster {
  return Array.isArray((client as NodeRedisCluster).slots) && hasMethods(client, 'nodeClient')
}

export function nodeRedisBlocking(client: NodeRedisBlocker | NodeRedisCluster): OpenBlocking {
  return key => {
    if (!isCluster(client)) return make(client)
    const node = client.slots[slotOf(key)]?.master.client
    return node?.isReady === true ? make(node) : undefined
  }
}

function make(node: NodeRedisBlocker): Blocking {
  let over = false
  let connection: NodeRedisBlocker | undefined
  const end = () => {
    if (over) return
    over = true
    if (connection?.isOpen) close(connection)
  }
  return {
    async connect() {
      connection = node.duplicate({
        // A lost connection is replaced, not reconnected.
        socket: { ...node.options?.socket, reconnectStrategy: false, socketTimeout: undefined },
        // A block may last longer than a command timeout, and a PING behind it would wait as long.
        commandOptions: undefined,
        pingInterval: undefined,
      })
      connection.on('error', end)
      try {
        await connection.connect()
        // The caller's timer keeps the process alive, not this socket.
        connection.unref?.()
      } catch (error) {
        end()
        throw error
      }
    },
    async pop(key, seconds) {
      const reply = await connection?.sendCommand(['BZPOPMIN', key, String(seconds)])
      return (reply as [key: string, member: string, score: unknown] | null | undefined)?.[1]
    },
    close: end,
  }
}
