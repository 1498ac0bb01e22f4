import 'reflect-metadata'
import { describe, expect, test } from '@jest/globals'
import request from 'supertest'
import { listenerOf, type Nest, started } from './nest-service.js'

/** What the module, the guard and the decorators do, on each platform of one version of NestJS. */
export function describeModule(
  title: string,
  loaded: Omit<Nest, 'platform' | 'on'>,
  platforms: Record<string, Nest['platform']>,
) {
  const { common, core, ours } = loaded
  describe.each(Object.entries(platforms))(`the module of ${title} on %s`, (_, platform) => {
    const nest = { ...loaded, platform }

    @ours.RateLimit('1/1m')
    class Each {
      first(): string {
        return 'first'
      }
      second(): string {
        return 'second'
      }
      @ours.SkipRateLimit()
      free(): string {
        return 'free'
      }
      @ours.RateLimit({ policy: '3/1m', message: 'Enough' })
      own(): string {
        return 'own'
      }
    }
    for (const name of ['first', 'second', 'free', 'own'] as const) {
      common.Get(name)(Each.prototype, name, Object.getOwnPropertyDescriptor(Each.prototype, name)!)
    }
    common.Controller()(Each)
    class Plain {
      plain(): string {
        return 'plain'
      }
    }
    common.Get('plain')(Plain.prototype, 'plain', Object.getOwnPropertyDescriptor(Plain.prototype, 'plain')!)
    common.Controller()(Plain)

    function serve(guarded: boolean) {
      class App {}
      const providers = guarded ? [{ provide: core.APP_GUARD, useClass: ours.RateLimitGuard }] : []
      const imports = [ours.RateLimitModule.forRoot({ policy: '2/1m' })]
      common.Module({ imports, controllers: [Each, Plain], providers })(App)
      const app = listenerOf(started(nest, App))
      return async (path: string, count: number) => {
        const all: unknown[] = []
        for (let i = 0; i < count; i++) all.push((await request(app).get(path)).status)
        return all
      }
    }

    test('limits nothing alone', async () => {
      expect(await serve(false)('/first', 3)).toEqual([200, 200, 200])
    })

    test('limits all routes by APP_GUARD, those with a limit of their own apart', async () => {
      const statuses = serve(true)
      expect(await statuses('/plain', 3)).toEqual([200, 200, 429])
      expect(await statuses('/first', 2)).toEqual([200, 429])
      expect(await statuses('/second', 2)).toEqual([200, 429])
      expect(await statuses('/own', 4)).toEqual([200, 200, 200, 429])
      expect(await statuses('/free', 5)).toEqual([200, 200, 200, 200, 200])
    })
  })

  test('the storage for @nestjs/throttler counts hits and blocks', async () => {
    const storage = new ours.ThrottlerStorage()
    const hit = (blockDuration: number) => storage.increment('key', 60_000, 2, blockDuration, 'default')
    expect(await hit(60_000)).toEqual({ totalHits: 1, timeToExpire: 60, isBlocked: false, timeToBlockExpire: 0 })
    expect((await hit(60_000)).totalHits).toBe(2)
    expect(await hit(120_000)).toMatchObject({ totalHits: 3, isBlocked: true, timeToBlockExpire: 120 })
    expect(await hit(120_000)).toMatchObject({ totalHits: 3, isBlocked: true, timeToBlockExpire: 120 })
  })
}
