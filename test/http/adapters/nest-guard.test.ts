import 'reflect-metadata'
import { expect, test } from '@jest/globals'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import * as ours from '../../../src/http/adapters/nest.js'
import { RateLimiter } from '../../../src/limiter/rate-limiter.js'
import { warnings } from '../../support/warnings.js'
import { started } from './nest-service.js'

const warned = warnings()

class Users {
  list(): string {
    return 'users'
  }
}
ours.RateLimit('1/15m')(Users.prototype, 'list', Object.getOwnPropertyDescriptor(Users.prototype, 'list')!)
common.Get('users')(Users.prototype, 'list', Object.getOwnPropertyDescriptor(Users.prototype, 'list')!)
common.Controller()(Users)

/** Starts an application with the module, guarded or not. */
async function start(guarded: boolean, options: ours.RateLimitOptions) {
  class App {}
  const providers = guarded ? [{ provide: core.APP_GUARD, useClass: ours.RateLimitGuard }] : []
  common.Module({ imports: [ours.RateLimitModule.forRoot(options)], controllers: [Users], providers })(App)
  return started({ core, platform: () => new ExpressAdapter() }, App)
}

test('an application that has started without any guard warns once: no route is limited', async () => {
  for (let i = 0; i < 2; i++) await (await start(false, { policy: '1/1m' })).close()
  expect(warned.textsOf('SPILLWAY_NO_GUARD')).toEqual([
    expect.stringContaining('add { provide: APP_GUARD, useClass: RateLimitGuard }'),
  ])
})

test("a route's own policy below a module with a limiter has that limiter's observer, and counts under both names", async () => {
  const told: string[] = []
  const observer = { decided: (_: unknown, limiter: string) => told.push(limiter) }
  const app = await start(true, { limiter: new RateLimiter({ policy: '100/1m', name: 'api', observer }) })
  await app.listen(0, '127.0.0.1')
  const url = `${await app.getUrl()}/users`
  expect([(await fetch(url)).status, (await fetch(url)).status]).toEqual([200, 429])
  expect(told).toEqual(['api Users.list /', 'api Users.list /'])
  await app.close()
})
