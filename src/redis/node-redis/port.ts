import type { ClientPort, ClientState, GaveUp, ScriptArgument } from '../client.js'
import { hasMethods } from '../has-methods.js'
import { NEVER_CONNECTED } from '../not-connected.js'
import { slotOf } from '../slot.js'

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
}

export function isNodeRedis(client: object): client is NodeRedisLike {
  return typeof (client as NodeRedisLike).isOpen === 'boolean' && hasMethods(client, 'evalSha', 'eval', 'on')
}

/** What to pass instead, if it is an object of node-redis that cannot serve; otherwise undefined. */
export function nodeRedisRefusal(client: NodeRedisLike): string | undefined {
  if (hasMethods(client, 'execute') && 'totalClients' in client) {
    return (
      'a pool of node-redis: expected one client, like createClient({ url }), which sends many commands at once. A pool opens more ' +
      'connections while the server does not answer, and cannot listen for changes that other processes make'
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
  // Listening to 'error' itself would keep an application alive that does not handle its errors. From the client's own class, because this module also runs where
  // Node's modules do not exist.
  const { errorMonitor = Symbol('none') } = (client as object).constructor as { readonly errorMonitor?: symbol }
  if (cluster || hasMethods(client, 'getSentinelNode')) {
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
  // A cluster of version 4 ignores the keys of its own evalSha: it asks any node, is redirected, and reloads the whole map, each
  // time and out of order.
  const send = (command: string, script: string, keys: readonly string[], args: readonly ScriptArgument[]) =>
    client.sendCommand!(keys[0], false, [command, script, String(keys.length), ...keys, ...args])
  const unlessConnected = () => (client.isOpen || wasReady ? undefined : Promise.reject(new Error(NEVER_CONNECTED)))
  return {
    cluster,
    // A client and a cluster never repeat commands. A sentinel does, but reports no lost connection.
    sendsAgain: false,
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
      // Its owner's `quit`, `close` and `destroy` end it with the event 'end', but an attempt to connect may fail before that event. Only who still uses
      // the client is told.
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
