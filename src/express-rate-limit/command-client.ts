import { PolicyError, StoreError, shown } from '../core/errors.js'
import type { RedisClient } from '../redis/client.js'
import type { IoredisLike } from '../redis/ioredis/port.js'

/** Sends a command: `(...args) => client.call(...args)` with ioredis, `(...args) => client.sendCommand(args)` with node-redis. */
export type SendCommand = (...args: string[]) => Promise<unknown>

/** The same for a cluster; receives the key of the command. */
export type SendCommandCluster = (details: { key?: string; isReadOnly: boolean; command: string[] }) => Promise<unknown>

/**
 * Adapts a function that sends commands, as `rate-limit-redis` takes one, to the shape of a client. It does not know whether it is connected,
 * so only the deadline limits its commands.
 */
export function commandClient(sendCommand?: SendCommand, sendCommandCluster?: SendCommandCluster): RedisClient {
  const send = sendCommand ?? sendCommandCluster
  if (typeof send !== 'function') {
    throw new PolicyError(
      `RedisStore: sendCommand ${shown(send)}: expected a function, like (...args) => client.call(...args), or better the client itself`,
    )
  }
  // Called asynchronously, so that an error of the function becomes a rejection.
  const ask = async (key: string | undefined, command: string[]) =>
    sendCommand ? sendCommand(...command) : sendCommandCluster!({ key, isReadOnly: false, command })
  const client: IoredisLike & Record<'scan' | 'unlink', unknown> = {
    status: 'ready',
    isCluster: sendCommand === undefined,
    evalsha: (sha1, count, ...rest) => ask(String(rest[0]), ['EVALSHA', sha1, String(count), ...rest.map(String)]),
    eval: (source, count, ...rest) => ask(String(rest[0]), ['EVAL', source, String(count), ...rest.map(String)]),
    connect: async () => {},
    on: () => {},
    scan: (...args: unknown[]) => ask(undefined, ['SCAN', ...args.map(String)]),
    unlink: (key: string) => ask(key, ['UNLINK', key]),
  }
  if (sendCommand) return client
  const nodes = () => {
    throw new StoreError(
      'RedisStore: resetAll over a cluster: expected the client itself, like new RedisStore({ client })',
    )
  }
  return Object.assign(client, { nodes })
}
