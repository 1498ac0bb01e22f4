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

  plan(): string {
    return 'plan'
  }
}
let plan = ''
const planOf = Object.getOwnPropertyDescriptor(Users.prototype, 'plan')!
ours.RateLimit({ policy: () => plan })(Users.prototype, 'plan', planOf)
common.Get('plan')(Users.prototype, 'plan', planOf)
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

test('a route keeps what was spent when its quota changes', async () => {
  const app = await start(true, { policy: '100/1m' })
  await app.listen(0, '127.0.0.1')
  const left: Array<string | null> = []
  for (plan of ['5/15m', '10/15m', '10/1h']) {
    left.push((await fetch(`${await app.getUrl()}/plan`)).headers.get('RateLimit'))
  }
  expect(left).toEqual(['"5-per-15m";r=4;t=900', '"10-per-15m";r=8;t=900', '"10-per-1h";r=9;t=3600'])
  await app.close()
})
