import { StoreError } from '../core/errors.js'
import type { ClientState } from './client.js'

/** Why no command may be sent to a client in this state; undefined if one may. */
export function notConnected(state: ClientState): StoreError | undefined {
  if (state === 'down') return new StoreError('the Redis client is not connected')
  if (state === 'unopened') return new StoreError(NEVER_CONNECTED)
  return undefined
}

export const NEVER_CONNECTED = 'the node-redis client was never connected: call await client.connect()'
