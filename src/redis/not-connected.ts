import { StoreError } from '../core/errors.js'
import type { ClientState } from './client.js'

/** Why a client in this state is not asked; undefined if it may be. */
export function notConnected(state: ClientState): StoreError | undefined {
  if (state === 'down') return new StoreError('the Redis client is not connected')
  if (state === 'unopened') return new StoreError(NEVER_CONNECTED)
  return undefined
}

export const NEVER_CONNECTED = 'the node-redis client was never connected: call await client.connect()'
