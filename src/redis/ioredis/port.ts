import type { ClientPort, ClientState, ScriptArgument } from '../client.js'
import { hasMethods } from '../has-methods.js'
import { slotOf } from '../slot.js'

/** The part of an ioredis `Redis` or `Cluster` (5 and 6) that is used here. */
export interface IoredisLike {
  readonly status: string
  /** The timer of the next attempt; null when its owner has closed the client, whatever `status` says. */
  reconnectTimeout?: ReturnType<typeof setTimeout> | null
  readonly isCluster?: boolean
  readonly options?: { readonly autoResendUnfulfilledCommands?: boolean; readonly keyPrefix?: string }
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
  on(event: 'ready' | 'close' | '+node', listener: (node?: IoredisNode) => void): unknown
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

export function ioredisPort(client: IoredisLike): ClientPort {
  let wasReady = client.status === 'ready'
  const ready = new Set<() => void>()
  const lost = new Set<() => void>()
  const onClose = () => {
    for (const listener of lost) listener()
  }
  client.on('ready', () => {
    wasReady = true
    for (const listener of ready) listener()
  })
  client.on('close', onClose)
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
      return !wasReady && STARTING.has(client.status) ? 'starting' : 'down'
    },
    wake() {
      // While it waits for its next attempt, it can be made to connect now; in any other state it is connecting, or its owner has closed it.
      if (client.status === 'reconnecting') {
        if (!client.reconnectTimeout) return
        // Without this, its own timer would start a second chain of attempts that nothing could stop.
        clearTimeout(client.reconnectTimeout)
        client.reconnectTimeout = null
      } else if (client.status !== 'wait') return
      client.connect().catch(() => {})
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
