import type { ClientPort, ClientState, ScriptArgument } from '../client.js'
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
  zRem?(key: string, member: string): Promise<unknown>
  sendCommand?(firstKey: string, isReadonly: boolean, args: readonly ScriptArgument[]): Promise<unknown>
  evalSha(sha1: string, options: EvalOptions): Promise<unknown>
  eval(source: string, options: EvalOptions): Promise<unknown>
  on(event: 'ready', listener: () => void): unknown
}

export function isNodeRedis(client: object): client is NodeRedisLike {
  return typeof (client as NodeRedisLike).isOpen === 'boolean' && hasMethods(client, 'evalSha', 'eval', 'on')
}

export function nodeRedisPort(client: NodeRedisLike): ClientPort {
  let wasReady = false
  const ready = new Set<() => void>()
  client.on('ready', () => {
    wasReady = true
    for (const listener of ready) listener()
  })
  const cluster = 'slots' in client
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
      if (client.isReady ?? client.isOpen) {
        wasReady = true
        return 'ready'
      }
      if (!client.isOpen && !wasReady) return 'unopened'
      return wasReady || client.isReady === undefined ? 'down' : 'starting'
    },
    // Its owner connects it once; after that its own strategy decides when it tries again.
    wake() {},
    onReady(listener) {
      ready.add(listener)
      return () => ready.delete(listener)
    },
    onLost() {},
    slotOf: key => (cluster ? slotOf(key) : 0),
    serverOf: slot => client.slots?.[slot]?.master?.address ?? '',
  }
}
