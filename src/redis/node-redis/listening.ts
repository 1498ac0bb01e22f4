import { hasMethods } from '../has-methods.js'
import type { Listening, ListeningEvents, OpenListening } from '../listening.js'

type Hear = (text: string, channel: string) => void

/** The part of a node-redis connection (4 and later) that is used here. */
interface NodeRedisConnection {
  readonly isOpen: boolean
  readonly options?: { readonly socket?: object }
  duplicate(overrides: object): NodeRedisConnection
  connect(): Promise<unknown>
  /** Closes it at once; before version 5 the method was `disconnect`. */
  destroy?(): void
  disconnect(): Promise<void> | void
  unref(): void
  subscribe(channels: readonly string[], listener: Hear): Promise<unknown>
  unsubscribe(channels: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: 'error' | 'end', listener: () => void): unknown
}

interface NodeRedisCluster {
  readonly isOpen: boolean
  /** Version 4 holds a promise while a node connects. */
  readonly masters: readonly { readonly client?: NodeRedisConnection & { readonly isReady?: boolean } }[]
}

export function isNodeRedisListener(client: object): client is NodeRedisConnection | NodeRedisCluster {
  return isCluster(client) || isConnection(client)
}

export function nodeRedisListening(client: NodeRedisConnection | NodeRedisCluster): OpenListening {
  if (!isCluster(client)) return events => open(client, events)
  // Every node of a cluster forwards what is published on any node, so one plain connection to any node receives all.
  return events => {
    const connected = client.masters.flatMap(({ client: node }) => (node?.isReady === true ? [node] : []))
    return connected.length > 0 ? open(connected[Math.floor(Math.random() * connected.length)], events) : undefined
  }
}

function isCluster(client: object): client is NodeRedisCluster {
  return Array.isArray((client as NodeRedisCluster).masters) && hasMethods(client, 'nodeClient')
}

function isConnection(client: object): client is NodeRedisConnection {
  return (
    typeof (client as NodeRedisConnection).isOpen === 'boolean' && hasMethods(client, 'duplicate', 'unref', 'subscribe')
  )
}

async function open(client: NodeRedisConnection, { onMessage, onLost }: ListeningEvents): Promise<Listening> {
  // Not reconnected: when this connection is lost, the subscriber opens another.
  const connection = client.duplicate({ socket: { ...client.options?.socket, reconnectStrategy: false } })
  let over = false
  const end = (lost: boolean) => {
    if (over) return
    over = true
    if (connection.isOpen) close(connection)
    if (lost) onLost()
  }
  // Without reconnection a loss is an 'error' event; 'end' follows only if the connection was closed deliberately.
  connection.on('error', () => end(true))
  connection.on('end', () => end(true))
  try {
    await connection.connect()
    // This connection does not keep the process alive; the timer of a waiter does.
    connection.unref()
  } catch {
    end(true)
  }
  return {
    subscribe: channels =>
      connection.subscribe(channels, (text, channel) => {
        if (!over) onMessage(channel, text)
      }),
    unsubscribe: channels => connection.unsubscribe(channels),
    ping: () => connection.ping(),
    close: () => end(false),
  }
}

/** Closes it at once; before version 5 the method was `disconnect`. */
export function close(connection: { destroy?(): void; disconnect?(): Promise<void> | void }): void {
  if (connection.destroy) connection.destroy()
  else Promise.resolve(connection.disconnect?.()).catch(() => {})
}
