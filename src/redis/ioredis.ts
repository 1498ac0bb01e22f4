import { PolicyError } from '../limiter/core/errors.js'
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

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
export interface IoredisLike {
  readonly status: string
  /** Failed attempts since it was connected last. */
  readonly retryAttempts?: number
  /** True after `quit` and `disconnect`; a `Redis`, unlike a `Cluster`, forgets it before its event 'end'. */
  readonly manuallyClosing?: boolean
  /** Only on a `Redis`. `connecting` is false after `disconnect`. */
  readonly connector?: { readonly connecting?: boolean }
  readonly stream?: IoredisStream
  readonly isCluster?: boolean
  readonly options?: {
    readonly autoResendUnfulfilledCommands?: boolean
    readonly keyPrefix?: string
    readonly sentinels?: readonly unknown[] | null
  }
  /** Only on a cluster: the node names of each slot, the primary first. */
  readonly slots?: readonly (readonly string[] | undefined)[]
  /** Commands without an answer, and commands that wait for a connection. */
  readonly commandQueue?: IoredisQueue
  readonly offlineQueue?: IoredisQueue
  nodes?(role?: 'all'): IoredisNode[]
  evalsha(sha1: string, keyCount: number, ...keysAndArgs: ScriptArgument[]): Promise<unknown>
  eval(source: string, keyCount: number, ...keysAndArgs: ScriptArgument[]): Promise<unknown>
  /** Undefined on objects that only resemble a client. */
  zrem?(key: string, member: string): Promise<unknown>
  connect(): Promise<unknown>
  on(
    event: 'connecting' | 'connect' | 'ready' | 'close' | 'end' | 'sentinelError' | '+node',
    listener: (node?: IoredisNode) => void,
  ): unknown
}

interface IoredisQueue {
  peekBack?(): { readonly command: { readonly args: unknown[] } } | undefined
}

export function isIoredis(client: object): client is IoredisLike {
  return typeof (client as IoredisLike).status === 'string' && hasMethods(client, 'evalsha', 'eval', 'connect', 'on')
}

export function ioredisPort(client: IoredisLike, gaveUp: GaveUp): ClientPort {
  /** True from the end of the first attempt, however it ended. */
  let hasTried = client.status === 'ready' || attemptsOf(client) > 0
  const ready = new Set<() => void>()
  const lost = new Set<() => void>()
  const onClose = () => {
    hasTried = true
    for (const listener of lost) listener()
  }
  client.on('ready', () => {
    hasTried = true
    for (const listener of ready) listener()
  })
  for (const event of ['close', 'end'] as const) client.on(event, onClose)
  let sentinelErrors = 0
  client.on('sentinelError', () => {
    // It goes on with its sentinels from the first; nothing is closed.
    if (!hasTried && ++sentinelErrors >= (client.options?.sentinels?.length ?? 1)) onClose()
  })
  watchGivingUp(client, gaveUp)
  const isCluster = client.isCluster === true
  if (isCluster) checkClusterPrefix(client.options?.keyPrefix)
  // A wrapper that only looks like a cluster, to forward commands, has no nodes to watch.
  const hasNodes = isCluster && client.options !== undefined
  if (hasNodes) {
    // A cluster repeats the commands that one of its nodes has lost.
    client.on('+node', node => node?.on('close', onClose))
    for (const node of client.nodes?.('all') ?? []) node.on('close', onClose)
  }
  return {
    cluster: isCluster,
    sendsAgain: hasNodes || client.options?.autoResendUnfulfilledCommands === true,
    evalsha: (sha1, keys, args) => client.evalsha(sha1, keys.length, ...keys, ...args),
    eval: (source, keys, args) => client.eval(source, keys.length, ...keys, ...args),
    // A cluster's commands wait in the queues of its nodes.
    lastSent: isCluster
      ? undefined
      : () => (client.offlineQueue?.peekBack?.() ?? client.commandQueue?.peekBack?.())?.command.args,
    zrem: typeof client.zrem === 'function' ? (key, member) => client.zrem!(key, member) : undefined,
    state(): ClientState {
      if (client.status === 'ready') return 'ready'
      return !hasTried && STARTING.has(client.status) ? 'starting' : 'down'
    },
    open() {
      if (client.status === 'wait') client.connect().catch(() => {})
    },
    onReady(listener) {
      ready.add(listener)
      return () => ready.delete(listener)
    },
    onLost: listener => lost.add(listener),
    // ioredis adds its prefix to the keys of every command.
    slotOf: key => (isCluster ? slotOf((client.options?.keyPrefix ?? '') + key) : 0),
    serverOf: slot => client.slots?.[slot]?.[0] ?? '',
  }
}

const STARTING = new Set(['wait', 'connecting', 'connect'])

function attemptsOf(client: IoredisLike): number {
  return client.retryAttempts ?? 0
}

/** Its event 'end' does not tell whether its owner has closed it or its strategy has given up. */
/**
 * Throws `PolicyError` for a prefix whose first braces have nothing between them: a cluster then looks at the whole key,
 * and at no tag behind them.
 */
function checkClusterPrefix(prefix: string | undefined): void {
  if (prefix === undefined || !/^[^{]*\{\}/.test(prefix)) return
  throw new PolicyError(
    `the cluster of ioredis has the keyPrefix ${JSON.stringify(prefix)}: given {} first, each key has a slot of its ` +
      'own, and a script with several keys is refused (CROSSSLOT); expected a prefix without empty braces, like "app:"',
  )
}

function watchGivingUp(client: IoredisLike, gaveUp: GaveUp): void {
  let attempts = attemptsOf(client)
  let hasQuit = false
  for (const event of ['connecting', 'ready'] as const) {
    client.on(event, () => {
      attempts = attemptsOf(client)
    })
  }
  client.on('connect', () => {
    hasQuit = false
    client.stream?.prependListener?.('close', () => {
      hasQuit = client.manuallyClosing === true
    })
  })
  client.on('end', () => {
    if (client.manuallyClosing) return
    // The strategy was asked, or there was none to ask.
    const wasAsked = attemptsOf(client) !== attempts
    if (!wasAsked && (hasQuit || client.connector?.connecting === false)) return
    const option = client.isCluster === true ? 'clusterRetryStrategy' : 'retryStrategy'
    gaveUp({ option, example: `${option}: times => Math.min(times * 50, 1000)` })
  })
}

interface IoredisStream {
  prependListener?(event: 'close', listener: () => void): unknown
  unref?(): unknown
}

/** What connects to one server. */
interface IoredisNode {
  /** Undefined until it connects. */
  readonly stream?: IoredisStream
  on(event: 'close' | 'connect', listener: () => void): unknown
}

/** The part of a further `Redis`, or to block also `Cluster`, that is used here. */
interface IoredisConnection extends IoredisNode {
  readonly status: string
  readonly isCluster?: boolean
  duplicate(...override: unknown[]): IoredisConnection
  connect(): Promise<unknown>
  disconnect(): void
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  ping(): Promise<unknown>
  bzpopmin(key: string, seconds: number): Promise<[key: string, member: string, score: string] | null>
  on(event: 'error' | 'end' | 'close' | 'connect', listener: () => void): unknown
  on(event: '+node', listener: (node?: IoredisNode) => void): unknown
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
const DUPLICATE = {
  lazyConnect: true,
  retryStrategy: () => null,
  reconnectOnError: null,
  autoResendUnfulfilledCommands: false,
  enableReadyCheck: false,
  readOnly: false,
  monitor: false,
}
// ioredis would otherwise add the client's key prefix to the channel.
const LISTENING_OPTIONS = { ...DUPLICATE, autoResubscribe: false, keyPrefix: '' }

async function open(client: IoredisConnection, { onMessage, onLost }: ListeningEvents): Promise<Listening> {
  const connection = client.duplicate(LISTENING_OPTIONS)
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

export function isIoredisBlocker(client: object): client is IoredisConnection {
  return isConnection(client) && hasMethods(client, 'bzpopmin')
}

/**
 * Override the client's own options: a lost connection is replaced, not reconnected, and a block may last longer than a
 * command.
 */
const PATIENT = { commandTimeout: undefined, socketTimeout: undefined }
const BLOCKING_OPTIONS = { ...DUPLICATE, ...PATIENT, maxRetriesPerRequest: null }

const CLUSTER_OPTIONS = {
  lazyConnect: true,
  clusterRetryStrategy: () => null,
  scaleReads: 'master',
  redisOptions: PATIENT,
}

export function ioredisBlocking(client: IoredisConnection): OpenBlocking {
  return () =>
    make(client.isCluster === true ? client.duplicate([], CLUSTER_OPTIONS) : client.duplicate(BLOCKING_OPTIONS))
}

function make(connection: IoredisConnection): Blocking {
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
