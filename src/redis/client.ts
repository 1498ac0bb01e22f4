import { PolicyError, shown } from '../errors.js'

/** A user's Redis client. Typed structurally: the package never imports a client at run time. */
export type RedisClient = object

/** What this package asks of a client: to run a script, known by its hash or sent in full. */
export interface ClientPort {
  /** True where a script's keys must all lie in one slot. */
  readonly cluster: boolean
  evalsha(sha1: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
  eval(source: string, keys: readonly string[], args: readonly string[]): Promise<unknown>
}

interface IoredisLike {
  readonly isCluster?: boolean
  evalsha(sha1: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
  eval(source: string, keyCount: number, ...keysAndArgs: string[]): Promise<unknown>
}

/** Recognises a client by its shape. Throws `PolicyError` for anything else; `user` names the class that was given it. */
export function portOf(client: RedisClient, user: string): ClientPort {
  if (isIoredis(client)) {
    return {
      cluster: client.isCluster === true,
      evalsha: (sha1, keys, args) => client.evalsha(sha1, keys.length, ...keys, ...args),
      eval: (source, keys, args) => client.eval(source, keys.length, ...keys, ...args),
    }
  }
  throw new PolicyError(
    `${user}: client ${shown(client)}: expected an ioredis client, like new Redis('redis://127.0.0.1:6379') or new Redis.Cluster([…])`,
  )
}

function isIoredis(client: unknown): client is IoredisLike {
  if (typeof client !== 'object' || client === null) return false
  const { evalsha, eval: run } = client as Partial<IoredisLike>
  return typeof evalsha === 'function' && typeof run === 'function'
}
