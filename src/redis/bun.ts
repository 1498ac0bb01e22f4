import { type ClientPort, type ClientState, type GaveUp, hasMethods, type ScriptArgument } from './client.js'

/** The part of a `RedisClient` of Bun (1.4 and later) that is used here. */
interface BunLike {
  readonly connected: boolean
  onconnect?: Callback | null
  onclose?: Callback | null
  connect(): Promise<unknown>
  /** The client waits with it for a connection, and does not repeat it: what was in flight is rejected. */
  send(command: string, args: readonly ScriptArgument[]): Promise<unknown>
}

type Callback = (...told: unknown[]) => unknown

/** How long the first attempt to connect may take; the client tells nobody that it has failed, and goes on trying. */
const FIRST_ATTEMPT_MS = 1000

export function isBun(client: object): client is BunLike {
  return (
    typeof (client as BunLike).connected === 'boolean' && hasMethods(client, 'send', 'evalsha', 'connect', 'duplicate')
  )
}

/** One command. Rejects with the server's error. */
export function bunCommand(client: BunLike, [command, ...args]: readonly string[]): Promise<unknown> {
  return client.send(command, args)
}

export function bunPort(client: BunLike, gaveUp: GaveUp): ClientPort {
  let startedAt = Number.POSITIVE_INFINITY
  let isUp = false
  /** True from its first connection, or from the end of its first attempt. */
  let hasTried = false
  /** True if it has closed while it was not connected: its attempts have ended. */
  let hasStopped = false
  const ready = new Set<() => void>()
  const lost = new Set<() => void>()
  /** A loss that the client does not tell is seen when it is connected again, at the latest. */
  const lose = () => {
    if (!isUp) return
    isUp = false
    for (const listener of lost) listener()
  }
  const chained = { onconnect: undefined as Callback | undefined, onclose: undefined as Callback | undefined }
  const heard = {
    onconnect() {
      lose()
      hasStopped = false
      isUp = true
      hasTried = true
      for (const listener of ready) listener()
    },
    onclose() {
      hasStopped = !isUp
      hasTried = true
      lose()
    },
  }
  const ours = (name: keyof typeof heard): Callback => {
    return function (this: unknown, ...told) {
      heard[name]()
      return chained[name]?.apply(this, told)
    }
  }
  const listeners = { onconnect: ours('onconnect'), onclose: ours('onclose') }
  /** The client has one listener of each kind, and its owner may set theirs at any time. */
  const listen = () => {
    for (const name of ['onconnect', 'onclose'] as const) {
      const set = client[name]
      if (set === listeners[name]) continue
      chained[name] = set ?? undefined
      client[name] = listeners[name]
    }
  }
  listen()
  const script = (command: string, text: string, keys: readonly string[], args: readonly ScriptArgument[]) =>
    client.send(command, [text, String(keys.length), ...keys, ...args])
  return {
    cluster: false,
    sendsAgain: false,
    evalsha: (sha1, keys, args) => script('EVALSHA', sha1, keys, args),
    eval: (source, keys, args) => script('EVAL', source, keys, args),
    zrem: (key, member) => client.send('ZREM', [key, member]),
    state(): ClientState {
      listen()
      if (client.connected) {
        if (!isUp) heard.onconnect()
        return 'ready'
      }
      lose()
      if (hasStopped) gaveUp({ option: 'maxRetries', example: 'new RedisClient(url, { maxRetries: 2 ** 31 - 1 })' })
      if (hasTried || performance.now() - startedAt > FIRST_ATTEMPT_MS) return 'down'
      return 'starting'
    },
    open() {
      if (hasTried || startedAt !== Number.POSITIVE_INFINITY) return
      startedAt = performance.now()
      client.connect().catch(() => {
        hasTried = true
      })
    },
    onReady(listener) {
      ready.add(listener)
      return () => ready.delete(listener)
    },
    onLost: listener => lost.add(listener),
    slotOf: () => 0,
    serverOf: () => '',
  }
}
