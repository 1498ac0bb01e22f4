import 'reflect-metadata'
import type { RequestListener } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import request from 'supertest'
import { PolicyError } from '../../../src/limiter/core/errors.js'
import { MemoryStore } from '../../../src/limiter/memory/memory-store.js'
import { ManualClock } from '../../../src/testing.js'
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

    /** Declares a controller with one route, GET `path`. */
    function controllerOf(
      path: string | { path: string; version: string },
      decorate: (prototype: object, descriptor: PropertyDescriptor) => void,
    ) {
      class Users {
        list(): string {
          return 'users'
        }
      }
      const descriptor = Object.getOwnPropertyDescriptor(Users.prototype, 'list')!
      common.Get()(Users.prototype, 'list', descriptor)
      decorate(Users.prototype, descriptor)
      common.Controller(path as string)(Users)
      return Users
    }

    const own = (limit: Parameters<typeof ours.RateLimit>[0]) => (prototype: object, descriptor: PropertyDescriptor) =>
      void ours.RateLimit(limit)(prototype, 'list', descriptor)

    /** Serves modules with controllers, all routes guarded. */
    function serveModules(
      modules: object[],
      limits: object,
      prepare?: (app: { enableVersioning(options: object): unknown }) => void,
      controllers: object[] = [],
    ): RequestListener {
      class App {}
      const providers = [{ provide: core.APP_GUARD, useClass: ours.RateLimitGuard }]
      common.Module({ imports: [limits, ...modules] as never[], controllers: controllers as never[], providers })(App)
      return listenerOf(started(nest, App, false, prepare as never))
    }

    async function statusesOf(app: RequestListener, path: string, count: number, headers: Record<string, string> = {}) {
      const all: number[] = []
      for (let i = 0; i < count; i++) all.push((await request(app).get(path).set(headers)).status)
      return all
    }

    const still = () => new MemoryStore({ clock: new ManualClock(0) })

    test('two limits on one route are one policy: a request is charged to both of them, or to none', async () => {
      const store = still()
      const both = controllerOf('both', (prototype, descriptor) => {
        // As @RateLimit('100/1m') above @RateLimit('2/1h'): the lower one is called first.
        ours.RateLimit('2/1h')(prototype, 'list', descriptor)
        ours.RateLimit({ policy: '100/1m', message: 'Enough' })(prototype, 'list', descriptor)
      })
      const app = serveModules([], ours.RateLimitModule.forRoot({ store }), undefined, [both])
      expect(await statusesOf(app, '/both', 5)).toEqual([200, 200, 429, 429, 429])
      const { headers, body } = await request(app).get('/both')
      expect([headers.ratelimit, body.detail]).toEqual(['"100-per-1m";r=98;t=60, "2-per-1h";r=0;t=3600', 'Enough'])
    })

    test.each<[string, Array<Parameters<typeof ours.RateLimit>[0]>, string]>([
      [
        'different keys',
        [
          { policy: '5/1m', key: () => 'a' },
          { policy: '9/1h', key: () => 'b' },
        ],
        'the @RateLimit decorators of Users.list: key is not the same in all of them, and they are one policy, which counts a request for all its limits or for none: expected one with all limits, like { policy: ["5/15m", "100/1h"], key: … }',
      ],
      ['a key for one of them', ['5/1m', { policy: '9/1h', key: () => 'b' }], 'key is not the same in all of them'],
      ['different stores', [{ policy: '5/1m', store: still() }, { store: still() }], 'store is not the same'],
      ['a function', ['5/1m', { policy: () => '9/1h' }], 'expected one function that returns all limits'],
      ['one limit twice', ['5/1m', '5/1m'], 'two limits are named "5-per-1m"'],
    ])('two limits on one route that cannot be one policy are an error where they stand: %s', (_, limits, message) => {
      const declare = () =>
        controllerOf('never', (prototype, descriptor) => {
          for (const limit of limits) own(limit)(prototype, descriptor)
        })
      expect(declare).toThrow(PolicyError)
      expect(declare).toThrow(message)
    })

    test('a limit and no limit on one route is an error', () => {
      expect(() =>
        controllerOf('never', (prototype, descriptor) => {
          own('5/1m')(prototype, descriptor)
          ours.SkipRateLimit()(prototype, 'list', descriptor)
        }),
      ).toThrow('Users.list has both @RateLimit and @SkipRateLimit: expected one of them')
    })

    test.each<[unknown, string]>([
      ['10/fortnight', 'limit "10/fortnight"'],
      [{ polcy: '1/1m' }, 'unknown option "polcy": did you mean policy?'],
      [{ policy: '1/1m', cost: -1 }, 'cost -1'],
      [{ policy: '1/1m', name: '' }, 'name ""'],
      [{ policy: [{ quota: 1, window: '1m', key: 'x' }] }, 'key "x" of a limit'],
      [null, 'expected options like { policy: "5/1m" }'],
    ])('a wrong limit of a route is an error when the class is declared: %j', (limit, message) => {
      expect(() => controllerOf('never', own(limit as string))).toThrow(message)
      expect(() => ours.RateLimit(limit as string)(class Whole {})).toThrow(message)
    })

    test('options that need others of the module are no error where they stand', async () => {
      const users = controllerOf('users', own({ policy: '1/1m', addressHeader: 'x-real-ip' }))
      const app = serveModules([], ours.RateLimitModule.forRoot({ proxies: 1 }), undefined, [users])
      expect(await statusesOf(app, '/users', 2, { 'x-real-ip': '203.0.113.1' })).toEqual([200, 429])
      expect(await statusesOf(app, '/users', 1, { 'x-real-ip': '203.0.113.2' })).toEqual([200])
    })

    test('controllers of one class name count apart, by their paths', async () => {
      const v1 = controllerOf('v1', own('2/1m'))
      const v2 = controllerOf('v2', own('2/1m'))
      const app = serveModules([], ours.RateLimitModule.forRoot({ store: still() }), undefined, [v1, v2])
      expect(await statusesOf(app, '/v1', 3)).toEqual([200, 200, 429])
      expect(await statusesOf(app, '/v2', 3)).toEqual([200, 200, 429])
    })

    test('controllers of one class name count apart, by their versions', async () => {
      const v1 = controllerOf({ path: 'users', version: '1' }, own('2/1m'))
      const v2 = controllerOf({ path: 'users', version: '2' }, own('2/1m'))
      const version = (app: { enableVersioning(options: object): unknown }) =>
        app.enableVersioning({ type: common.VersioningType.HEADER, header: 'x-version' })
      const app = serveModules([], ours.RateLimitModule.forRoot({ store: still() }), version, [v1, v2])
      expect(await statusesOf(app, '/users', 3, { 'x-version': '1' })).toEqual([200, 200, 429])
      expect(await statusesOf(app, '/users', 3, { 'x-version': '2' })).toEqual([200, 200, 429])
    })

    test('controllers of one class name and path, in modules that are mounted apart, count apart, and the same in every process', async () => {
      const [first, second] = [1, 2].map(() => {
        class Mounted {}
        common.Module({ controllers: [controllerOf('same', own('2/1m'))] })(Mounted)
        return Mounted
      })
      const store = still()
      // Two processes of one service, which are asked in another order.
      const [one, other] = [1, 2].map(() =>
        serveModules(
          [
            first,
            second,
            core.RouterModule.register([
              { path: 'v1', module: first },
              { path: 'v2', module: second },
            ]),
          ],
          ours.RateLimitModule.forRoot({ store }),
        ),
      )
      expect(await statusesOf(one, '/v1/same', 2)).toEqual([200, 200])
      expect(await statusesOf(other, '/v2/same', 1)).toEqual([200])
      expect(await statusesOf(other, '/v1/same', 1)).toEqual([429])
      expect(await statusesOf(one, '/v2/same', 2)).toEqual([200, 429])
    })

    test('options come from a factory that receives what it asks for', async () => {
      class Settings {}
      common.Module({ providers: [{ provide: 'POLICY', useValue: '1/1m' }], exports: ['POLICY'] })(Settings)
      const limits = ours.RateLimitModule.forRootAsync({
        imports: [Settings],
        inject: ['POLICY'],
        useFactory: async (policy: string) => ({ policy }),
      })
      const users = controllerOf('users', () => {})
      expect(await statusesOf(serveModules([], limits, undefined, [users]), '/users', 2)).toEqual([200, 429])
    })

    test('an application with wrong options from a factory does not start', async () => {
      const start = (useFactory: () => object) => {
        class App {}
        common.Module({ imports: [ours.RateLimitModule.forRootAsync({ useFactory })] })(App)
        return started(nest, App)
      }
      await expect(start(() => ({ polcy: '1/1m' }))).rejects.toThrow('unknown option "polcy": did you mean policy?')
      await expect(start(() => Promise.reject(new Error('no settings')))).rejects.toThrow('no settings')
    })

    test.each<[unknown, string]>([
      [{}, 'useFactory undefined: expected a function'],
      [{ useFactory: () => ({}), injects: [] }, 'unknown option "injects": did you mean inject?'],
      [undefined, 'given undefined, expected options like { inject: [REDIS]'],
    ])('a factory that is none is refused: %j', (given, message) => {
      const call = () => ours.RateLimitModule.forRootAsync(given as never)
      expect(call).toThrow(PolicyError)
      expect(call).toThrow(message)
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
