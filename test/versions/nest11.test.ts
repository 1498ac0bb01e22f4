import 'reflect-metadata'
import { jest } from '@jest/globals'
import express from 'express'
import { describeModule } from '../http/adapters/nest-module.js'
import { nestAdapter, type TrustProxy } from '../http/adapters/nest-service.js'
import { adapterContract } from '../support/adapter-contract.js'

jest.mock('@nestjs/common', () => jest.requireActual('nest11-common'))
const common: typeof import('@nestjs/common') = jest.requireActual('nest11-common')
const core: typeof import('@nestjs/core') = jest.requireActual('nest11-core')
const { ExpressAdapter } = jest.requireActual<typeof import('@nestjs/platform-express')>('nest11-platform-express')
const { FastifyAdapter } = jest.requireActual<typeof import('@nestjs/platform-fastify')>('nest11-platform-fastify')
const ours = jest.requireActual<typeof import('../../src/http/adapters/nest.js')>('../../src/http/adapters/nest.js')

const onExpress = (trustProxy: TrustProxy) => {
  const app = express()
  if (trustProxy) app.set('trust proxy', trustProxy === 'anybody' || 1)
  return new ExpressAdapter(app)
}
const onFastify = (trustProxy: TrustProxy) =>
  new FastifyAdapter({ trustProxy: trustProxy === true ? 'loopback' : trustProxy === 'anybody' })

adapterContract('NestJS 11 on Express', nestAdapter({ common, core, ours, platform: onExpress, on: 'Express' }))
adapterContract('NestJS 11 on Fastify', nestAdapter({ common, core, ours, platform: onFastify, on: 'Fastify' }))

describeModule('NestJS 11', { common, core, ours }, { Express: onExpress, Fastify: onFastify })
