import type { RedisClient } from './client.js'

/** Where a store keeps its counts, for what else is to be kept there. */
export interface RedisPlace {
  readonly client: RedisClient
  readonly prefix: string
}

const PLACES = new WeakMap<object, RedisPlace>()

export function keepPlace(store: object, place: RedisPlace): void {
  PLACES.set(store, place)
}

/** Undefined for anything but a store in Redis. Apart from the store, which would bring all its code. */
export function redisPlaceOf(store: unknown): RedisPlace | undefined {
  return typeof store === 'object' && store !== null ? PLACES.get(store) : undefined
}
