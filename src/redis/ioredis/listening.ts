import { hasMethods } from '../has-methods.js'
import type { Listening, ListeningEvents, OpenListening } from '../listening.js'

/** The part of an ioredis connection (5 and 6) that is used here. */
interface IoredisConnection {
  readonly status: string
  /** Undefined until it connects. */
  readonly stream?: { unref?(): unknown }
  duplicate(override: object): IoredisConnection
  connect(): Promise<unknown>
  disconnect(): void
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: 'error' | 'end' | 'connect', listener: () => void): unknown
  on(event: 'message', listener: (channel: string, text: string) => void): unknown
}

interface IoredisCluster {
  readonly status: string
  readonly isCluster: true
  nodes(role?: 'master'): IoredisConnection[]
}

export function isIoredisListener(client: object): client is IoredisConnection | IoredisCluster {
  return isCluster(client) || isConnection(client)
}

export function ioredisListening(client: IoredisConnection | IoredisCluster): OpenListening {
  if (isCluster(client)) {
    // Every node of a cluster forwards what is published on any node, so one plain connection to any node receives all.
    return events => {
      // A node that was not used yet may be dead.
      const nodes = client.nodes('master').filter(({ status }) => status === 'ready')
      return nodes.length > 0 ? open(nodes[Math.floor(Math.random() * nodes.length)], events) : undefined
    }
  }
  return events => open(client, events)
}

function isCluster(client: object): client is IoredisCluster {
  return (client as IoredisCluster).isCluster === true && hasMethods(client, 'nodes')
}

function isConnection(client: object): client is IoredisConnection {
  return typeof (client as IoredisConnection).status === 'string' && hasMethods(client, 'duplicate')
}

/** Override the client's own options: the subscriber opens another connection after a loss. */
export const DUPLICATE = {
  lazyConnect: true,
  retryStrategy: () => null,
  reconnectOnError: null,
  autoResendUnfulfilledCommands: false,
  enableReadyCheck: false,
  readOnly: false,
  monitor: false,
}
// ioredis would otherwise add the client's key prefix to the channel.
const OPTIONS = { ...DUPLICATE, autoResubscribe: false, keyPrefix: '' }

async function open(client: IoredisConnection, { onMessage, onLost }: ListeningEvents): Promise<Listening> {
  const connection = client.duplicate(OPTIONS)
  let over = false
  const end = (lost: boolean) => {
    if (over) return
    over = true
    // Closing an ended connection would only start a timer.
    if (connection.status !== 'end') connection.disconnect()
    if (lost) onLost()
  }
  connection.on('error', () => {})
  // This connection does not keep the process alive; the timer of a waiter does.
  connection.on('connect', () => connection.stream?.unref?.())
  connection.on('end', () => end(true))
  connection.on('message', (channel, text) => {
    if (!over) onMessage(channel, text)
  })
  try {
    await connection.connect()
  } catch {
    end(true)
  }
  return {
    subscribe: channels => connection.subscribe(...channels),
    unsubscribe: channels => connection.unsubscribe(...channels),
    ping: () => connection.ping(),
    close: () => end(false),
  }
}
