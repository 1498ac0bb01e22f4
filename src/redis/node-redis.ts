import {
  type Blocking,
  type ClientPort,
  type ClientState,
  type GaveUp,
  hasMethods,
  type Listening,
  type ListeningEvents,
  type OpenBlocking,
  type OpenListening,
  type ScriptArgument,
} from './client.js'
import { slotOf } from './keys.js'
import { NEVER_CONNECTED } from './replies.js'

interface EvalOptions {
  keys: string[]
  arguments: ScriptArgument[]
}

/** The part of a node-redis client, cluster or sentinel (4 and later) that is used here. */
export interface NodeRedisLike {
  readonly isOpen: boolean
  /** Undefined on a cluster before version 6, whose nodes connect separately. */
  readonly isReady?: boolean
  /** Only on a cluster: the node of each slot. */
  readonly slots?: readonly ({ readonly master?: { readonly address?: string } } | undefined)[]
  /** Only on a cluster. Version 4 holds a promise while a node connects. */
  readonly masters?: readonly { readonly client?: { readonly isOpen?: boolean } }[]
  /** Only on a client. */
  readonly options?: { readonly legacyMode?: boolean }
  zRem?(key: string, member: string): Promise<unknown>
  sendCommand?(firstKey: string, isReadonly: boolean, args: readonly ScriptArgument[]): Promise<unknown>
  evalSha(sha1: string, options: EvalOptions): Promise<unknown>
  eval(source: string, options: EvalOptions): Promise<unknown>
  on(event: 'ready' | 'connect' | 'end' | 'node-error' | symbol, listener: () => void): unknown
  /** Only on a sentinel. */
  on(event: 'client-error' | 'topology-change', listener: (event: { readonly type: string }) => void): unknown
}

export function isNodeRedis(client: object): client is NodeRedisLike {
  return typeof (client as NodeRedisLike).isOpen === 'boolean' && hasMethods(client, 'evalSha', 'eval', 'on')
}

/** What to pass instead, if it is an object of node-redis that cannot serve; otherwise undefined. */
export function nodeRedisRefusal(client: object): string | undefined {
  if (hasMethods(client, 'internal_send_command', 'send_command')) {
    return (
      'a client of node-redis 3 or earlier, whose commands return no promises: expected version 4.6 or later ' +
      '(npm install redis@latest), like createClient({ url }), and await its connect()'
    )
  }
  if (!isNodeRedis(client)) return undefined
  if (hasMethods(client, 'execute') && 'totalClients' in client) {
    return (
      'a pool of node-redis: expected one client, like createClient({ url }), which sends many commands at once. ' +
      'A pool opens more connections while the server does not answer, and cannot listen for changes that other ' +
      'processes make'
    )
  }
  if (client.options?.legacyMode !== true) return undefined
  return (
    'a client of node-redis 4 in legacy mode: expected a client without it, whose commands return promises, like ' +
    'client.duplicate({ legacyMode: false }), and await its connect()'
  )
}

export function nodeRedisPort(client: NodeRedisLike, gaveUp: GaveUp): ClientPort {
  let wasReady = false
  /** True from the end of the first attempt, however it ended. */
  let hasTried = false
  let isClosed = false
  /** True from an error after which the client no longer tries to connect. */
  let hasStopped = false
  const ready = new Set<() => void>()
  const lost = new Set<() => void>()
  const cluster = 'slots' in client
  const sentinel = hasMethods(client, 'getSentinelNode')
  const isReady = () => client.isReady ?? client.isOpen
  const onReady = () => {
    isClosed = false
    hasStopped = false
    wasReady = true
    for (const listener of ready) listener()
  }
  const onLost = () => {
    hasTried = true
    for (const listener of lost) listener()
  }
  const giveUp = () => gaveUp({ option: 'reconnectStrategy', example: RECONNECT })
  client.on(cluster ? 'connect' : 'ready', onReady)
  client.on('end', () => {
    isClosed = true
    onLost()
  })
  // Listening to 'error' itself would keep an application alive that does not handle its errors. From the client's own
  // class, because this module also runs where Node's modules do not exist.
  const { errorMonitor = Symbol('none') } = (client as object).constructor as { readonly errorMonitor?: symbol }
  if (cluster || sentinel) {
    // One node or sentinel of several has failed. The client is open for as long as it tries the others.
    const onError = () => {
      setImmediate(() => client.isOpen || isClosed || onLost())
      if (client.isOpen && client.masters?.some(node => node.client?.isOpen === false)) giveUp()
    }
    for (const event of [errorMonitor, 'node-error' as const]) client.on(event, onError)
  } else {
    client.on(errorMonitor, () => {
      if (isReady()) return
      if (!client.isOpen) hasStopped = true
      onLost()
    })
  }
  if (sentinel) {
    // It stays ready when it loses the connection to the primary, and calls all that was not answered again.
    client.on('client-error', ({ type }) => type === 'MASTER' && onLost())
    client.on('topology-change', ({ type }) => type === 'MASTER_CHANGE' && onLost())
  }
  // A cluster of version 4 ignores the keys of its own evalSha: it asks any node, is redirected, and reloads the whole
  // map, each time and out of order.
  const send = (command: string, script: string, keys: readonly string[], args: readonly ScriptArgument[]) =>
    client.sendCommand!(keys[0], false, [command, script, String(keys.length), ...keys, ...args])
  const unlessConnected = () => (client.isOpen || wasReady ? undefined : Promise.reject(new Error(NEVER_CONNECTED)))
  return {
    cluster,
    // A client and a cluster never repeat commands.
    sendsAgain: sentinel,
    evalsha: (sha1, keys, args) =>
      unlessConnected() ??
      (cluster ? send('EVALSHA', sha1, keys, args) : client.evalSha(sha1, { keys: [...keys], arguments: [...args] })),
    eval: (source, keys, args) =>
      unlessConnected() ??
      (cluster ? send('EVAL', source, keys, args) : client.eval(source, { keys: [...keys], arguments: [...args] })),
    zrem:
      typeof client.zRem === 'function' ? (key, member) => unlessConnected() ?? client.zRem!(key, member) : undefined,
    state(): ClientState {
      if (isReady()) {
        wasReady = true
        return 'ready'
      }
      // Its owner's `quit`, `close` and `destroy` end it with the event 'end', but an attempt to connect may fail
      // before that event. Only who still uses the client is told.
      if (hasStopped && !client.isOpen && !isClosed) giveUp()
      if (wasReady || hasTried) return 'down'
      return client.isOpen ? 'starting' : 'unopened'
    },
    // Its owner connects it.
    open() {},
    onReady(listener) {
      ready.add(listener)
      return () => ready.delete(listener)
    },
    onLost: listener => lost.add(listener),
    slotOf: key => (cluster ? slotOf(key) : 0),
    serverOf: slot => client.slots?.[slot]?.master?.address ?? '',
  }
}

const RECONNECT = 'socket: { reconnectStrategy: retries => Math.min(retries * 50, 1000) }'

type Hear = (text: string, channel: string) => void

/** The part of a node-redis connection (4 and later) that is used here. */
interface NodeRedisConnection {
  readonly isOpen: boolean
  readonly isReady?: boolean
  readonly options?: { readonly socket?: object }
  duplicate(overrides: object): NodeRedisConnection
  connect(): Promise<unknown>
  /** Closes it at once; before version 5 the method was `disconnect`. */
  destroy?(): void
  disconnect?(): Promise<void> | void
  unref?(): void
  sendCommand(command: readonly string[]): Promise<unknown>
  subscribe(channels: readonly string[], listener: Hear): Promise<unknown>
  unsubscribe(channels: readonly string[]): Promise<unknown>
  ping(): Promise<unknown>
  on(event: 'error' | 'end', listener: () => void): unknown
}

interface ListeningCluster {
  readonly isOpen: boolean
  /** Version 4 holds a promise while a node connects. */
  readonly masters: readonly { readonly client?: NodeRedisConnection }[]
}

export function isNodeRedisListener(client: object): client is NodeRedisConnection | ListeningCluster {
  return hasMasters(client) || isConnection(client)
}

export function nodeRedisListening(client: NodeRedisConnection | ListeningCluster): OpenListening {
  if (!hasMasters(client)) return events => open(client, events)
  // Every node of a cluster forwards what is published on any node, so one plain connection to any node receives all.
  return events => {
    const connected = client.masters.flatMap(({ client: node }) => (node?.isReady === true ? [node] : []))
    return connected.length > 0 ? open(connected[Math.floor(Math.random() * connected.length)], events) : undefined
  }
}

function hasMasters(client: object): client is ListeningCluster {
  return Array.isArray((client as ListeningCluster).masters) && hasMethods(client, 'nodeClient')
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
    connection.unref?.()
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
function close(connection: NodeRedisConnection): void {
  if (connection.destroy) connection.destroy()
  else Promise.resolve(connection.disconnect?.()).catch(() => {})
}

/** The part of a node-redis cluster (4 and later) that is used here. */
interface BlockingCluster {
  readonly isOpen: boolean
  /** Version 4 holds a promise while a node connects. */
  readonly slots: ReadonlyArray<{ readonly master: { readonly client?: NodeRedisConnection } } | undefined>
}

export function isNodeRedisBlocker(client: object): client is NodeRedisConnection | BlockingCluster {
  if (hasSlots(client)) return true
  return typeof (client as NodeRedisConnection).isOpen === 'boolean' && hasMethods(client, 'duplicate', 'sendCommand')
}

function hasSlots(client: object): client is BlockingCluster {
  return Array.isArray((client as BlockingCluster).slots) && hasMethods(client, 'nodeClient')
}

export function nodeRedisBlocking(client: NodeRedisConnection | BlockingCluster): OpenBlocking {
  return key => {
    if (!hasSlots(client)) return make(client)
    const node = client.slots[slotOf(key)]?.master.client
    return node?.isReady === true ? make(node) : undefined
  }
}

function make(node: NodeRedisConnection): Blocking {
  let over = false
  let connection: NodeRedisConnection | undefined
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
