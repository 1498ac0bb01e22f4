import type { ClientPort, ClientState, GaveUp, ScriptArgument } from '../client.js'
import { hasMethods } from '../has-methods.js'
import { slotOf } from '../slot.js'

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
export interface IoredisLike {
  readonly status: string
  /** Failed attempts since it was connected last. */
  readonly retryAttempts?: number
  /** True after `quit` and `disconnect`; a `Redis`, unlike a `Cluster`, forgets it before its event 'end'. */
  readonly manuallyClosing?: boolean
  /** Only on a `Redis`. `connecting` is false after `disconnect`. */
  readonly connector?: { readonly connecting?: boolean }
  readonly stream?: { prependListener?(event: 'close', listener: () => void): unknown }
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

interface IoredisNode {
  on(event: 'close', listener: () => void): unknown
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
