import 'reflect-metadata'
import { expect, test } from '@jest/globals'
import * as common from '@nestjs/common'
import * as core from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import * as ours from '../../../src/http/adapters/nest.js'
import { warnings } from '../../support/warnings.js'
import { started } from './nest-service.js'

const warned = warnings()

let starts = 0
class Users {
  list(): string {
    return 'users'
  }

  onApplicationBootstrap(): void {
    starts++
  }
}
ours.RateLimit('1/15m')(Users.prototype, 'list', Object.getOwnPropertyDescriptor(Users.prototype, 'list')!)
ours.RateLimit('5/1h')(Users)
common.Get('users')(Users.prototype, 'list', Object.getOwnPropertyDescriptor(Users.prototype, 'list')!)
common.Controller()(Users)

test('a decorator without module and guard warns once the application has started, whose own hook is called', async () => {
  class App {}
  common.Module({ controllers: [Users] })(App)
  await (await started({ core, platform: () => new ExpressAdapter() }, App)).close()
  expect(warned.textsOf('SPILLWAY_NO_GUARD')).toEqual([expect.stringMatching(/^@RateLimit: no RateLimitGuard/)])
  expect(starts).toBe(1)
})
