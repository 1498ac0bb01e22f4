import { expect, test } from '@jest/globals'
import type { World } from './world.js'

/** Mistakes in mounting a limiter that are found while requests come. */
export function mistakesContract(world: World): void {
  const { whole, limited, serve, get, user } = world

  whole.describe('a limiter whose requests have no key', () => {
    const limits = { policy: '9/1m', key: user }

    test('warns once, after a hundred: it probably stands before the authentication', async () => {
      const app = serve(limited(limits))
      const ask = (count: number) => Promise.all(Array.from({ length: count }, () => get(app)))
      await ask(99)
      expect(world.warned.texts).toEqual([])
      await ask(1)
      expect(world.warned.codes).toEqual(['SPILLWAY_NO_KEY'])
      expect(world.warned.texts[0]).toMatch(/^rateLimit: the first 100 requests all had no key, /)
      await ask(101)
      expect(world.warned.texts).toHaveLength(1)
    })

    test('does not warn if one of the first had a key', async () => {
      const app = serve(limited(limits))
      await get(app, { 'x-user': 'ann' })
      await Promise.all(Array.from({ length: 101 }, () => get(app)))
      expect(world.warned.texts).toEqual([])
    })
  })
}
