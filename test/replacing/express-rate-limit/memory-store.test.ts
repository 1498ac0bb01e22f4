import { describe, expect, jest, test } from '@jest/globals'
import express from 'express'
import { MemoryStore as TheirStore } from 'express-rate-limit'
import request from 'supertest'
import { MemoryStore } from '../../../src/replacing/express-rate-limit/index.js'
import { OURS, START, THEIRS, World } from './world.js'

const STORES: ReadonlyArray<[string, () => MemoryStore]> = [
  ['ours', () => new MemoryStore()],
  ['that of express-rate-limit', () => new TheirStore() as unknown as MemoryStore],
]

describe.each(STORES)('MemoryStore, %s', (name, create) => {
  async function at<Result>(ask: (store: MemoryStore) => Promise<Result>): Promise<Result> {
    jest.useFakeTimers({ now: START })
    const store = create()
    try {
      store.init({ windowMs: 1000 } as never)
      return await ask(store)
    } finally {
      store.shutdown()
      jest.useRealTimers()
    }
  }
  const hits = async (store: MemoryStore, key = 'me') => (await store.get(key))?.totalHits

  test('counts each key from its first hit for one window', () =>
    at(async store => {
      expect(await store.increment('me')).toMatchObject({ totalHits: 1, resetTime: new Date(START + 1000) })
      jest.setSystemTime(START + 400)
      expect(await store.increment('me')).toMatchObject({ totalHits: 2, resetTime: new Date(START + 1000) })
      expect(await store.increment('you')).toMatchObject({ totalHits: 1, resetTime: new Date(START + 1400) })
      expect(await store.get('me')).toMatchObject({ totalHits: 2, resetTime: new Date(START + 1000) })
      jest.setSystemTime(START + 1000)
      expect(await store.get('me')).toBeUndefined()
      expect(await store.increment('me')).toMatchObject({ totalHits: 1, resetTime: new Date(START + 2000) })
    }))

  test('gives hits back, never below 0, and the window continues', () =>
    at(async store => {
      await store.increment('me')
      await store.increment('me')
      await store.decrement('me')
      expect(await hits(store)).toBe(1)
      await store.decrement('me')
      await store.decrement('me')
      expect(await store.get('me')).toMatchObject({ totalHits: 0, resetTime: new Date(START + 1000) })
      expect((await store.increment('me')).totalHits).toBe(1)
    }))

  test('forgets one key, or all', () =>
    at(async store => {
      for (const key of ['me', 'you', 'all']) await store.increment(key)
      await store.resetKey('me')
      expect([await hits(store), await hits(store, 'you')]).toEqual([undefined, 1])
      await store.resetAll()
      expect([await hits(store, 'you'), await hits(store, 'all')]).toEqual([undefined, undefined])
      expect((await store.increment('you')).totalHits).toBe(1)
    }))

  test('reports that no other instance counts its keys', () => {
    expect(create().localKeys).toBe(true)
  })

  if (name !== 'ours') return

  test('decrement creates no key', () =>
    at(async store => {
      await store.decrement('me')
      expect(await store.get('me')).toBeUndefined()
    }))

  test('holds at most maxKeys keys', async () => {
    const store = new MemoryStore({ maxKeys: 10 })
    for (let i = 0; i < 100; i++) await store.increment(`key ${i}`)
    const known = await Promise.all(Array.from({ length: 100 }, (_, i) => store.get(`key ${i}`)))
    expect(known.filter(info => info !== undefined)).toHaveLength(10)
    store.shutdown()
  })

  test('counts windows longer than a timer can be', async () => {
    jest.useFakeTimers({ now: START })
    const store = new MemoryStore()
    store.init({ windowMs: 2 ** 32 })
    await store.increment('me')
    jest.setSystemTime(START + 2 ** 32 - 1)
    expect((await store.increment('me')).totalHits).toBe(2)
    store.shutdown()
    jest.useRealTimers()
  })
})

test('a limiter of express-rate-limit accepts our MemoryStore, and our limiter accepts theirs', async () => {
  for (const [module, store] of [
    [THEIRS, new MemoryStore()],
    [OURS, new TheirStore() as unknown as MemoryStore],
  ] as const) {
    const world = new World(module, express)
    const app = world.serve(world.limiter({ limit: 2, store, standardHeaders: 'draft-7' }))
    expect(await world.statuses(3, app)).toEqual([200, 200, 429])
    expect((await request(app).get('/').set('X-Forwarded-For', '192.0.2.9')).headers.ratelimit).toBe(
      'limit=2, remaining=1, reset=60',
    )
    expect(world.logged).toEqual([])
    store.shutdown()
  }
})
