import { describe, expect, test } from '@jest/globals'
import type { Options, Store } from '../../../src/replacing/express-rate-limit/index.js'
import { START, sameOnBoth, type World } from './world.js'

/** A store that writes down what it is asked. */
function recording(world: World, more: Partial<Store> = {}) {
  const asked: unknown[] = []
  let hits = 0
  const store: Store = {
    init: options => void asked.push(['init', options.windowMs, options.limit, Object.keys(options).sort()]),
    async increment(key) {
      asked.push(['increment', key])
      return { totalHits: ++hits, resetTime: new Date(START + 5000) }
    },
    async decrement(key) {
      asked.push(['decrement', key])
    },
    async resetKey(key) {
      asked.push(['resetKey', key])
    },
    ...more,
  }
  return {
    asked,
    store,
    serve: (options?: Partial<Options>) => world.serve(world.limiter({ limit: 2, store, ...options })),
  }
}

const broken = () => {
  throw new Error('no database')
}

describe('a store is used as express-rate-limit uses it', () => {
  test('receives the options once, and is called for each request', async () => {
    const seen = await sameOnBoth(async world => {
      const { asked, serve } = recording(world)
      return [await world.times(3, serve({ windowMs: 9000 })), asked]
    })
    expect(JSON.stringify(seen)).toContain('["init",9000,2,')
  })

  test('may answer synchronously, and need not know the end of the window', async () => {
    await sameOnBoth(async world => {
      let totalHits = 0
      const { serve } = recording(world, { increment: () => ({ totalHits: ++totalHits, resetTime: undefined }) })
      const skipping = { skipFailedRequests: true, skipSuccessfulRequests: true }
      return [await world.times(3, serve({ standardHeaders: 'draft-8', ...skipping }))]
    })
  })

  test('that fails to start is logged, at once or later', async () => {
    await sameOnBoth(async world => {
      const seen = []
      for (const init of [broken, async () => broken()]) {
        seen.push(await world.statuses(3, recording(world, { init }).serve()))
      }
      return seen
    })
  })

  test.each([false, true])('that fails, passOnStoreError %s', async passOnStoreError => {
    await sameOnBoth(async world => {
      const seen = []
      for (const increment of [broken, async () => broken(), async () => undefined as never]) {
        seen.push(await world.times(2, recording(world, { increment }).serve({ passOnStoreError })))
      }
      return seen
    })
  })

  test('is called at once by resetKey and getKey, and need not have get', async () => {
    await sameOnBoth(world => {
      const { asked, store } = recording(world)
      const plain = world.limiter({ store })
      plain.resetKey('me')
      const told: unknown[] = [asked.slice(1)]
      try {
        plain.getKey('me')
      } catch (error) {
        told.push(String(error))
      }
      const { store: other } = recording(world, { get: key => ({ totalHits: key.length, resetTime: undefined }) })
      return [...told, world.limiter({ store: other }).getKey('me')]
    })
  })

  test('with callbacks, as before version 6', async () => {
    await sameOnBoth(async world => {
      const asked: unknown[] = []
      let hits = 0
      let fault: Error | undefined
      class Old {
        incr(
          key: string,
          callback: (error: Error | undefined, totalHits: number, resetTime: Date | undefined) => void,
        ) {
          asked.push(['incr', key])
          // A store answers in a later turn.
          setTimeout(() => callback(fault, ++hits, new Date(START + 5000)), 1)
        }
        decrement(key: string) {
          asked.push(['decrement', key])
        }
        resetKey(key: string) {
          asked.push(['resetKey', key])
        }
      }
      const limiter = world.limiter({ limit: 2, store: new Old(), skipFailedRequests: true })
      const app = world.serve(limiter)
      const seen = [await world.times(3, app)]
      limiter.resetKey('me')
      fault = new Error('no database')
      seen.push(await world.times(1, app))
      await world.settle()
      return [seen, asked]
    })
  })

  test('a subclass of MemoryStore is called, not bypassed', async () => {
    await sameOnBoth(async world => {
      const keys: string[] = []
      class Noting extends world.MemoryStore {
        override async increment(key: string) {
          keys.push(key)
          return super.increment(key)
        }
      }
      return [await world.statuses(3, world.serve(world.limiter({ limit: 2, store: new Noting() }))), keys]
    })
  })
})
